//! The tracks of events.

use std::collections::BTreeMap;

use ferretto_proto::fields::{
    counter_descriptor, process_descriptor, thread_descriptor, track_descriptor as field,
};
use ferretto_wire::Fields;

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

    pub(super) fn describe(&mut self, descriptor: Fields<'_>) {
        let mut track = Track::default();
        for item in descriptor.map_while(Result::ok) {
            let text = || item.as_str_lossy().map(|text| text.into_owned());
            match (item.number, item.as_message()) {
                (field::UUID, _) => track.uuid = item.as_u64().unwrap_or(0),
                (field::PARENT_UUID, _) => track.parent = item.as_u64().filter(|uuid| *uuid != 0),
                (field::NAME | field::STATIC_NAME, _) => track.name = text(),
                (field::PROCESS, Some(process)) => track.kind = read_process(process),
                (field::THREAD, Some(thread)) => track.kind = read_thread(thread),
                (field::COUNTER, Some(counter)) => track.kind = read_counter(counter),
                _ => {}
            }
        }
        self.by_uuid.insert(track.uuid, track);
    }
}

fn read_process(process: Fields<'_>) -> TrackKind {
    let (mut pid, mut name) = (0, None);
    for item in process.map_while(Result::ok) {
        match item.number {
            process_descriptor::PID => pid = item.as_i64().unwrap_or(0) as i32,
            process_descriptor::PROCESS_NAME => name = item.as_str_lossy(),
            _ => {}
        }
    }
    let name = name.map(|name| name.into_owned());
    TrackKind::Process { pid, name }
}

fn read_thread(thread: Fields<'_>) -> TrackKind {
    let (mut pid, mut tid, mut name) = (0, 0, None);
    for item in thread.map_while(Result::ok) {
        match item.number {
            thread_descriptor::PID => pid = item.as_i64().unwrap_or(0) as i32,
            thread_descriptor::TID => tid = item.as_i64().unwrap_or(0) as i32,
            thread_descriptor::THREAD_NAME => name = item.as_str_lossy(),
            _ => {}
        }
    }
    let name = name.map(|name| name.into_owned());
    TrackKind::Thread { pid, tid, name }
}

fn read_counter(counter: Fields<'_>) -> TrackKind {
    let (mut unit, mut multiplier, mut is_incremental) = (None, 1, false);
    for item in counter.map_while(Result::ok) {
        match item.number {
            counter_descriptor::UNIT => {
                unit = match item.as_u64() {
                    Some(1) => Some("ns".into()),
                    Some(2) => Some("count".into()),
                    Some(3) => Some("bytes".into()),
                    _ => unit,
                };
            }
            counter_descriptor::UNIT_NAME => unit = item.as_str_lossy(),
            counter_descriptor::UNIT_MULTIPLIER => multiplier = item.as_i64().unwrap_or(1),
            counter_descriptor::IS_INCREMENTAL => {
                is_incremental = item.as_bool().unwrap_or(false);
            }
            _ => {}
        }
    }
    TrackKind::Counter {
        unit: unit.map(|unit| unit.into_owned()),
        multiplier,
        is_incremental,
    }
}
