//! The process and thread ids of tracks.

use std::collections::HashMap;

use ferretto_format::Fnv1a;
use ferretto_format::budget::entry_bytes;
use ferretto_tables::Trace;

/// A process and thread id, of a real thread or of another track.
pub(super) type Shown = (i64, i64);

/// The process id of tracks without a process, and of CPUs.
pub(super) const NO_PROCESS: i64 = 0;
/// The first thread id given to tracks that are not a thread's.
const FIRST_TRACK: i64 = 1 << 33;

/// A group of lanes, by the common identity of their tracks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Group(pub(super) u64);

/// A lane of a group.
pub(super) type Lane = (Group, u32);

/// The ids of tracks that are not a thread's. They are the same in each part of a trace, although
/// the rows differ.
#[derive(Debug, Default)]
pub(super) struct Tracks {
    /// The ids by the identity of the track and its lane.
    numbers: HashMap<Lane, i64>,
}

impl Tracks {
    /// Returns its memory in bytes.
    pub(super) fn memory(&self) -> usize {
        self.numbers.len() * entry_bytes::<(Lane, i64)>()
    }

    /// Returns the ids of a track or lane.
    pub(super) fn shown(&mut self, track: &Track, lane: u32) -> Shown {
        match *track {
            Track::Thread(shown) => shown,
            Track::Other { pid, group, .. } => {
                let next = FIRST_TRACK + self.numbers.len() as i64;
                (pid, *self.numbers.entry((group, lane)).or_insert(next))
            }
        }
    }
}

/// A track of slices.
#[derive(Debug, Clone)]
pub(super) enum Track {
    /// A thread's.
    Thread(Shown),
    /// One of a group of tracks with the same identity, whose slices overlap.
    Other {
        pid: i64,
        group: Group,
        name: String,
        /// True for requests to a disk.
        is_requests: bool,
    },
}

impl Track {
    /// Reads a track.
    pub(super) fn read(trace: &Trace, track: u32) -> Self {
        let (tables, strings) = (trace.tables(), trace.strings());
        let rows = &tables.track;
        let name = strings.text(rows.name().get(track));
        let dimensions = rows.dimension_arg_set_id().get(track);
        let dimensions = || dimensions.into_iter().flat_map(|set| tables.args.set(set));
        let upid = rows.upid().get(track);
        let mut thread = None;
        if let Some(utid) = rows.utid().get(track) {
            let of = of_thread(trace, utid);
            if dimensions().all(|arg| strings.text(arg.key) == "utid") {
                return Self::Thread(of);
            }
            thread = Some(of);
        }
        let pid = match (upid, thread) {
            (_, Some((pid, _))) => pid,
            (Some(upid), None) => tables.process.pid().get(upid),
            (None, None) => NO_PROCESS,
        };
        let machine = tables.machine.raw_id().get(rows.machine_id().get(track));
        let mut key = Fnv1a::new()
            .update(&machine.to_ne_bytes())
            .update(&pid.to_ne_bytes())
            .update(&thread.map_or(0, |(_, tid)| tid).to_ne_bytes())
            .update(strings.text(rows.type_().get(track)).as_bytes());
        // The names and sources of merged tracks are those of one of them.
        let mut source = None;
        if rows.track_group_id().get(track).is_none() {
            key = key.update(name.as_bytes());
            source = rows.source_arg_set_id().get(track);
        }
        let source = source.into_iter().flat_map(|set| tables.args.set(set));
        for arg in dimensions().chain(source) {
            let of = strings.text(arg.key);
            // Rows of this part, and numbers of lanes in it.
            if matches!(of, "upid" | "utid" | "track_compressor_idx") {
                continue;
            }
            key = key.update(of.as_bytes());
            key = match arg.value {
                ferretto_tables::schema::ArgValue::Text(text) => {
                    key.update(strings.text(text).as_bytes())
                }
                other => key.update(&other.as_int().unwrap_or(0).to_ne_bytes()),
            };
        }
        Self::Other {
            pid,
            group: Group(key.finish()),
            name: name.to_owned(),
            is_requests: strings.text(rows.type_().get(track)) == "block_io",
        }
    }
}

/// Returns the ids of a thread and its process.
pub(super) fn of_thread(trace: &Trace, utid: u32) -> Shown {
    let tables = trace.tables();
    let tid = tables.thread.tid().get(utid);
    let upid = tables.thread.upid().get(utid);
    let pid = upid.map_or(NO_PROCESS, |upid| tables.process.pid().get(upid));
    (pid, tid)
}
