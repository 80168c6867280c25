//! The tracks of track events.

use ferretto_proto::fields::{process_descriptor, thread_descriptor, track_descriptor as field};
use ferretto_wire::Fields;
use rustc_hash::FxHashMap;

use super::super::context::Context;
use crate::strings::StringId;
use crate::trackers::process::ThreadNameSource;
use crate::trackers::track::{Dimension, TrackSpec};

/// The tracks by their uuids.
#[derive(Debug, Default)]
pub(super) struct Tracks {
    described: FxHashMap<u64, Described>,
    resolved: FxHashMap<u64, u32>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Described {
    name: StringId,
    parent: u64,
    thread: Option<(i64, i64)>,
    process: Option<i64>,
}

impl Tracks {
    /// Notes a `TrackDescriptor`.
    pub(super) fn describe(&mut self, cx: &mut Context, bytes: &[u8]) -> bool {
        let (mut uuid, mut track) = (0, Described::default());
        for part in Fields::new(bytes).map_while(Result::ok) {
            let bytes = part.as_bytes().unwrap_or_default();
            let number = |number| Fields::find(number, bytes)?.as_i64();
            match part.number {
                field::UUID => uuid = part.as_u64().unwrap_or(0),
                field::PARENT_UUID => track.parent = part.as_u64().unwrap_or(0),
                field::NAME | field::STATIC_NAME => {
                    track.name = cx.store.strings.intern_bytes(bytes);
                }
                field::THREAD => {
                    let pid = number(thread_descriptor::PID).unwrap_or(0);
                    let tid = number(thread_descriptor::TID).unwrap_or(0);
                    track.thread = Some((pid, tid));
                }
                field::PROCESS => {
                    track.process = Some(number(process_descriptor::PID).unwrap_or(0));
                }
                _ => {}
            }
        }
        self.described.entry(uuid).or_insert(track);
        true
    }

    /// Reads a `TrackDescriptor` in the order of time.
    pub(super) fn parse(&mut self, cx: &mut Context, bytes: &[u8]) {
        let Some(uuid) = Fields::find(field::UUID, bytes).and_then(|uuid| uuid.as_u64()) else {
            return;
        };
        self.resolve(cx, uuid);
        let thread = Fields::find(field::THREAD, bytes).and_then(|thread| thread.as_bytes());
        let name = thread.and_then(|thread| Fields::find(thread_descriptor::THREAD_NAME, thread));
        let known = self.described.get(&uuid).and_then(|track| track.thread);
        if let (Some(name), Some((pid, tid))) = (name.and_then(|name| name.as_bytes()), known) {
            let name = cx.store.strings.intern_bytes(name);
            let utid = cx.processes.thread_in_process(&mut cx.store, tid, pid);
            let source = ThreadNameSource::TrackDescriptor;
            cx.processes.name_thread(&mut cx.store, utid, name, source);
        }
    }

    /// Returns the track with this uuid.
    pub(super) fn resolve(&mut self, cx: &mut Context, uuid: u64) -> u32 {
        if let Some(track) = self.resolved.get(&uuid) {
            return *track;
        }
        let described = self.described.get(&uuid).copied().unwrap_or_default();
        let store = &mut cx.store;
        let track = if let Some((pid, tid)) = described.thread {
            let utid = cx.processes.thread_in_process(store, tid, pid);
            cx.tracks.of_thread(store, utid)
        } else if let Some(pid) = described.process {
            let upid = cx.processes.process(store, pid);
            let dimensions = [Dimension::Upid(upid)];
            let spec = TrackSpec::slices("process_track_event", &dimensions);
            cx.tracks.intern(store, spec.named(described.name))
        } else {
            let dimensions = [Dimension::Int("track_uuid", uuid as i64)];
            let spec = TrackSpec::slices("global_track_event", &dimensions);
            cx.tracks.intern(store, spec.named(described.name))
        };
        self.resolved.insert(uuid, track);
        track
    }
}
