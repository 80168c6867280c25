//! Tracks other than the thread's: their uuids and descriptors.

use std::ptr;
use std::slice;

use ferretto_client::TraceWriter;
use ferretto_engine::EventBuffer;
use ferretto_format::Fnv1a;
use ferretto_proto::fields::{trace_packet, track_descriptor as field};

use super::sequence::{Sequence, begin};
use super::{fields, list, text};
use crate::abi::{
    Fields, Levels, PerfettoTeHlExtraNamedTrack, PerfettoTeHlExtraProtoTrack,
    PerfettoTeHlNestedTrackNamed, PerfettoTeHlNestedTrackProto, PerfettoTeHlNestedTrackRegistered,
    PerfettoTeRegisteredTrackImpl, nested_type,
};

/// The merge behaviour of siblings that are merged by a key.
const BY_KEY: u32 = 3;

/// The track of an event.
#[derive(Clone, Copy, Debug)]
pub(super) enum Track {
    /// The track of the thread.
    Thread,
    Registered(*const PerfettoTeRegisteredTrackImpl),
    Named(*const PerfettoTeHlExtraNamedTrack),
    Proto(*const PerfettoTeHlExtraProtoTrack),
    Nested(Levels),
}

/// A track with a name.
struct Named {
    level: PerfettoTeHlNestedTrackNamed,
    parent: u64,
}

/// A writer of descriptors.
pub(super) struct Describer<'a> {
    pub(super) sequence: &'a mut Sequence,
    pub(super) writer: &'a mut TraceWriter,
    pub(super) buffer: &'a mut EventBuffer,
}

impl Describer<'_> {
    /// Describes a track and its parents, unless the sequence has already, and returns its uuid;
    /// `None` for the thread's track.
    ///
    /// # Safety
    ///
    /// The track and its pointers are valid.
    pub(super) unsafe fn describe(&mut self, track: Track) -> Option<u64> {
        // SAFETY: by contract.
        unsafe {
            match track {
                Track::Thread => None,
                Track::Registered(track) => Some(self.registered(track)),
                Track::Named(track) => Some(self.named(&Named::from(&*track))),
                Track::Proto(track) => Some(self.proto((*track).uuid, None, (*track).fields)),
                Track::Nested(levels) => Some(self.nested(levels)),
            }
        }
    }

    /// # Safety
    ///
    /// As for [`describe`](Self::describe).
    unsafe fn nested(&mut self, levels: Levels) -> u64 {
        // SAFETY: by contract; each level is the header of the struct for its type.
        unsafe {
            list(levels).fold(0, |parent, level| match (*level).type_ {
                nested_type::NAMED => {
                    let level = *level.cast::<PerfettoTeHlNestedTrackNamed>();
                    self.named(&Named { level, parent })
                }
                nested_type::PROTO => {
                    let level = &*level.cast::<PerfettoTeHlNestedTrackProto>();
                    self.proto(level.id ^ parent, Some(parent), level.fields)
                }
                nested_type::REGISTERED => {
                    self.registered((*level.cast::<PerfettoTeHlNestedTrackRegistered>()).track)
                }
                nested_type::THREAD => self.sequence.thread_track(),
                nested_type::PROCESS => self.sequence.process_track(),
                _ => parent,
            })
        }
    }

    /// # Safety
    ///
    /// As for [`describe`](Self::describe).
    unsafe fn registered(&mut self, track: *const PerfettoTeRegisteredTrackImpl) -> u64 {
        // SAFETY: by contract.
        let track = unsafe { &*track };
        if self.sequence.described.insert(track.uuid) {
            let description = match track.descriptor_size {
                0 => &[],
                // SAFETY: by contract.
                size => unsafe { slice::from_raw_parts(track.descriptor.cast::<u8>(), size) },
            };
            begin(self.buffer).nested(trace_packet::TRACK_DESCRIPTOR, |m| m.raw(description));
            self.writer.write_packet(self.buffer.written());
        }
        track.uuid
    }

    /// # Safety
    ///
    /// As for [`describe`](Self::describe).
    unsafe fn proto(&mut self, uuid: u64, parent: Option<u64>, fields: Fields) -> u64 {
        if self.sequence.described.insert(uuid) {
            let interner = &mut self.sequence.interner;
            begin(self.buffer).nested(trace_packet::TRACK_DESCRIPTOR, |track| {
                track.varint(field::UUID, uuid);
                if let Some(parent) = parent {
                    track.varint(field::PARENT_UUID, parent);
                }
                // SAFETY: by contract.
                unsafe { fields::write(track, interner, fields) };
            });
            self.writer.write_packet(self.buffer.written());
        }
        uuid
    }

    /// # Safety
    ///
    /// As for [`describe`](Self::describe).
    unsafe fn named(&mut self, track: &Named) -> u64 {
        let level = &track.level;
        // SAFETY: by contract.
        let (name, key) = unsafe {
            let name = text(level.name).unwrap_or_default();
            (name, text(level.sibling_merge_key_str))
        };
        let uuid = track.parent ^ Fnv1a::hash(name) ^ level.id;
        if !self.sequence.described.insert(uuid) {
            return uuid;
        }
        begin(self.buffer).nested(trace_packet::TRACK_DESCRIPTOR, |m| {
            m.varint(field::UUID, uuid);
            if track.parent != 0 {
                m.varint(field::PARENT_UUID, track.parent);
            }
            let field = if level.is_name_static {
                field::STATIC_NAME
            } else {
                field::NAME
            };
            m.bytes(field, name);
            if level.sibling_order_rank != 0 {
                m.int(field::SIBLING_ORDER_RANK, level.sibling_order_rank.into());
            }
            if level.child_ordering != 0 {
                m.varint(field::CHILD_ORDERING, level.child_ordering.into());
            }
            if level.sibling_merge_behavior != 0 {
                m.varint(
                    field::SIBLING_MERGE_BEHAVIOR,
                    level.sibling_merge_behavior.into(),
                );
            }
            match key {
                _ if level.sibling_merge_behavior != BY_KEY => {}
                Some(key) => m.bytes(field::SIBLING_MERGE_KEY, key),
                None => m.varint(field::SIBLING_MERGE_KEY_INT, level.sibling_merge_key_int),
            }
        });
        self.writer.write_packet(self.buffer.written());
        uuid
    }
}

impl From<&PerfettoTeHlExtraNamedTrack> for Named {
    fn from(track: &PerfettoTeHlExtraNamedTrack) -> Self {
        let header = crate::abi::PerfettoTeHlNestedTrack {
            type_: nested_type::NAMED,
        };
        Self {
            level: PerfettoTeHlNestedTrackNamed {
                header,
                name: track.name,
                id: track.id,
                is_name_static: track.is_name_static,
                sibling_order_rank: 0,
                child_ordering: 0,
                sibling_merge_behavior: 0,
                sibling_merge_key_str: ptr::null(),
                sibling_merge_key_int: 0,
            },
            parent: track.parent_uuid,
        }
    }
}
