//! Track events: counts by type, and the number of tracks.

use std::collections::BTreeSet;

use ferretto_wire::Fields;

use crate::printable::printable;
use crate::threads::Threads;

/// The maximum number of tracks, so that memory is bounded for any input.
const MAX_TRACKS: usize = 1 << 18;

/// The counts of track events by type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrackEventCounts {
    /// The number of begin events of slices.
    pub begins: u64,
    /// The number of end events of slices.
    pub ends: u64,
    /// The number of instants.
    pub instants: u64,
    /// The number of counter values.
    pub counters: u64,
    /// The number of events of other types, including those of older writers.
    pub others: u64,
    /// The number of described tracks.
    pub tracks: usize,
}

impl TrackEventCounts {
    /// Returns the number of events of all types.
    pub fn total(&self) -> u64 {
        self.begins + self.ends + self.instants + self.counters + self.others
    }
}

#[derive(Debug, Default)]
pub(super) struct TrackEvents {
    counts: TrackEventCounts,
    tracks: BTreeSet<u64>,
}

impl TrackEvents {
    /// Reads a `TrackEvent`.
    pub(super) fn event(&mut self, bytes: &[u8]) {
        let count = match Fields::find(9, bytes).and_then(|f| f.as_u64()) {
            Some(1) => &mut self.counts.begins,
            Some(2) => &mut self.counts.ends,
            Some(3) => &mut self.counts.instants,
            Some(4) => &mut self.counts.counters,
            _ => &mut self.counts.others,
        };
        *count += 1;
    }

    /// Reads a `TrackDescriptor`, and the name of a process in it.
    pub(super) fn descriptor(&mut self, machine: u32, bytes: &[u8], threads: &mut Threads) {
        for field in Fields::new(bytes).map_while(Result::ok) {
            match field.number {
                1 if self.tracks.len() < MAX_TRACKS => self.tracks.extend(field.as_u64()),
                3 => {
                    if let Some(process) = field.as_bytes() {
                        name_process(machine, process, threads);
                    }
                }
                _ => {}
            }
        }
    }

    pub(super) fn finish(self) -> TrackEventCounts {
        TrackEventCounts {
            tracks: self.tracks.len(),
            ..self.counts
        }
    }
}

/// Reads a `ProcessDescriptor`. The command line in a process tree takes precedence.
fn name_process(machine: u32, bytes: &[u8], threads: &mut Threads) {
    let pid = Fields::find(1, bytes)
        .and_then(|f| f.as_u64())
        .map(|pid| pid as i32);
    let name = Fields::find(6, bytes).and_then(|f| f.as_bytes());
    if let (Some(pid), Some(name)) = (pid, name)
        && threads.process_name(machine, pid).is_none()
    {
        threads.name_process(machine, pid, printable(name));
    }
}
