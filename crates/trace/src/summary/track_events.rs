//! Track events: counts by type, and the number of tracks.

use std::collections::BTreeSet;

use ferretto_format::track_event::{EventKind, TrackEvent};
use ferretto_proto::views::{ProcessDescriptorView, TrackDescriptorView};

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
    /// The number of other events: states, and whole slices and flows of older writers.
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
    pub(super) fn event(&mut self, event: &TrackEvent<'_>) {
        let count = match event.kind() {
            Some(kind) if kind.begins_slice() => &mut self.counts.begins,
            Some(kind) if kind.ends_slice() => &mut self.counts.ends,
            Some(kind) if kind.is_instant() => &mut self.counts.instants,
            Some(EventKind::Counter) => &mut self.counts.counters,
            _ => &mut self.counts.others,
        };
        *count += 1;
    }

    /// Reads a `TrackDescriptor`, and the name of a process in it.
    pub(super) fn descriptor(&mut self, machine: u32, bytes: &[u8], threads: &mut Threads) {
        let descriptor = TrackDescriptorView::read(bytes);
        if self.tracks.len() < MAX_TRACKS {
            self.tracks.extend(descriptor.uuid);
        }
        if let Some(process) = descriptor.process {
            name_process(machine, process, threads);
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
    let process = ProcessDescriptorView::read(bytes);
    if let (Some(pid), Some(name)) = (process.pid, process.process_name)
        && threads.process_name(machine, pid).is_none()
    {
        threads.name_process(machine, pid, printable(name));
    }
}
