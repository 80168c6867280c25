//! Encoding of track descriptors.

use ferretto_format::{Process, Thread};
use ferretto_proto::fields::{counter_descriptor, track_descriptor as field};
use ferretto_wire::{Encoder, Sink};

use super::{CounterTrack, Identity, Merge, Shape, Track};
use crate::track_event::name::Name;

/// The type of a counter of processor time.
const THREAD_TIME: u64 = 1;

/// The kind of data on a track.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Marker<'a> {
    Slices,
    Counter(&'a CounterTrack<'a>),
    State,
}

/// Writes the fields of the TrackDescriptor of a track.
pub(crate) fn describe<S: Sink + ?Sized>(
    out: &mut Encoder<'_, S>,
    track: &Track<'_>,
    marker: Marker<'_>,
    process: &Process,
    thread: &Thread,
) {
    let identity = Identity::of(process, thread);
    out.varint(field::UUID, track.number_for(&identity));
    match track.parent_number(&identity) {
        0 => {}
        parent => out.varint(field::PARENT_UUID, parent),
    }
    match track.name {
        Some(Name::Static(name)) => out.string(field::STATIC_NAME, name),
        Some(Name::Dynamic(name)) => out.string(field::NAME, name),
        None => {}
    }
    if let Some(text) = track.description {
        out.string(field::DESCRIPTION, text);
    }
    match track.shape {
        Shape::Process => process.describe(out),
        Shape::CurrentThread => thread.describe(process, out),
        Shape::Thread(tid) => {
            let thread = Thread {
                tid: tid as i32,
                name: Vec::new(),
            };
            thread.describe(process, out);
        }
        Shape::Custom => {}
    }
    match marker {
        Marker::Slices => {}
        Marker::Counter(counter) => {
            out.nested(field::COUNTER, |out| describe_counter(out, counter))
        }
        Marker::State => out.nested(field::STATE, |_| {}),
    }
    if track.keeps_apart {
        out.bool(field::DISALLOW_MERGING_WITH_SYSTEM_TRACKS, true);
    }
    if let Some(ordering) = track.ordering {
        out.varint(field::CHILD_ORDERING, ordering as u64);
    }
    if let Some(rank) = track.rank {
        out.int(field::SIBLING_ORDER_RANK, rank.into());
    }
    describe_merging(out, track.merge);
}

fn describe_merging<S: Sink + ?Sized>(out: &mut Encoder<'_, S>, merge: Merge<'_>) {
    let behavior = match merge {
        Merge::Unspecified => return,
        Merge::ByName => 1,
        Merge::Never => 2,
        Merge::ByKey(_) | Merge::ByNumber(_) => 3,
    };
    out.varint(field::SIBLING_MERGE_BEHAVIOR, behavior);
    match merge {
        Merge::ByKey(key) => out.string(field::SIBLING_MERGE_KEY, key),
        Merge::ByNumber(key) => out.varint(field::SIBLING_MERGE_KEY_INT, key),
        _ => {}
    }
}

fn describe_counter<S: Sink + ?Sized>(out: &mut Encoder<'_, S>, counter: &CounterTrack<'_>) {
    if counter.is_thread_time {
        out.varint(counter_descriptor::TYPE, THREAD_TIME);
    }
    if let Some(unit) = counter.unit {
        out.varint(counter_descriptor::UNIT, unit as u64);
    }
    if let Some(name) = counter.unit_name {
        out.string(counter_descriptor::UNIT_NAME, name);
    }
    if counter.unit_multiplier != 1 {
        out.int(counter_descriptor::UNIT_MULTIPLIER, counter.unit_multiplier);
    }
    if counter.is_incremental {
        out.bool(counter_descriptor::IS_INCREMENTAL, true);
    }
    if let Some(key) = counter.share_key {
        out.string(counter_descriptor::Y_AXIS_SHARE_KEY, key);
    }
}
