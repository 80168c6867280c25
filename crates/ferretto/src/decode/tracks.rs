//! The tracks of events.

use std::collections::BTreeMap;

use ferretto_proto::views::counter_descriptor::unit;
use ferretto_proto::views::{
    CounterDescriptorView, ProcessDescriptorView, ThreadDescriptorView, TrackDescriptorView,
};

/// A track.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Track {
    /// The uuid by which events refer to the track.
    pub uuid: u64,
    /// The uuid of the parent track, if any.
    pub parent: Option<u64>,
    /// The explicit name, if any.
    pub name: Option<String>,
    /// The kind of the track.
    pub kind: TrackKind,
}

/// The kind of a track.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrackKind {
    /// A custom track.
    #[default]
    Custom,
    /// A process.
    Process {
        /// The process id.
        pid: i32,
        /// The process name, if recorded.
        name: Option<String>,
    },
    /// A thread.
    Thread {
        /// The process id.
        pid: i32,
        /// The thread id.
        tid: i32,
        /// The thread name, if recorded.
        name: Option<String>,
    },
    /// A counter.
    Counter {
        /// The name of the unit, if recorded.
        unit: Option<String>,
        /// The factor by which recorded values are multiplied.
        multiplier: i64,
        /// Set if recorded values are differences.
        is_incremental: bool,
    },
}

/// The tracks described so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tracks {
    by_uuid: BTreeMap<u64, Track>,
}

impl Tracks {
    pub(crate) fn get(&self, uuid: u64) -> Option<&Track> {
        self.by_uuid.get(&uuid)
    }

    /// Reads a `TrackDescriptor`.
    pub(super) fn describe(&mut self, bytes: &[u8]) {
        let descriptor = TrackDescriptorView::read(bytes);
        let thread = descriptor.thread.map(thread);
        let process = descriptor.process.map(process);
        let counter = descriptor.counter.map(counter);
        let track = Track {
            uuid: descriptor.uuid.unwrap_or(0),
            parent: descriptor.parent_uuid.filter(|uuid| *uuid != 0),
            name: descriptor.name.or(descriptor.static_name).map(text),
            kind: counter.or(thread).or(process).unwrap_or_default(),
        };
        self.by_uuid.insert(track.uuid, track);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn process(bytes: &[u8]) -> TrackKind {
    let process = ProcessDescriptorView::read(bytes);
    TrackKind::Process {
        pid: process.pid.unwrap_or(0),
        name: process.process_name.map(text),
    }
}

fn thread(bytes: &[u8]) -> TrackKind {
    let thread = ThreadDescriptorView::read(bytes);
    TrackKind::Thread {
        pid: thread.pid.unwrap_or(0),
        tid: thread.tid.unwrap_or(0) as i32,
        name: thread.thread_name.map(text),
    }
}

fn counter(bytes: &[u8]) -> TrackKind {
    let counter = CounterDescriptorView::read(bytes);
    let unit = match counter.unit {
        Some(unit::UNIT_TIME_NS) => Some("ns".to_owned()),
        Some(unit::UNIT_COUNT) => Some("count".to_owned()),
        Some(unit::UNIT_SIZE_BYTES) => Some("bytes".to_owned()),
        _ => None,
    };
    TrackKind::Counter {
        unit: counter.unit_name.map(text).or(unit),
        multiplier: counter.unit_multiplier.unwrap_or(1),
        is_incremental: counter.is_incremental.unwrap_or(false),
    }
}
