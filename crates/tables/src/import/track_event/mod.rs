//! Track events and the descriptors of their tracks.

mod apply;
mod args;
mod counter;
mod descriptor;
mod names;
mod resolved;
mod subject;
mod tokenizer;
mod tracks;

pub(crate) use self::resolved::{Annotation, Resolved};

use std::num::NonZeroU32;

use ferretto_format::track_event::TrackEvent;
use rustc_hash::FxHashMap;

use self::apply::{Applying, Subject};
use self::args::ArgsReader;
use self::tokenizer::{Extra, SequenceState};
use self::tracks::Tracks;
use super::context::{Context, EventState};
use super::profiles::Profiles;
use crate::stats::Stat;
use crate::trackers::args::ArgSet;
use crate::trackers::lane::Nesting;

/// The state of track events and their tracks.
#[derive(Debug, Default)]
pub(crate) struct TrackEvents {
    tracks: Tracks,
    /// By the index of the sequence.
    sequences: FxHashMap<u32, SequenceState>,
    extras: Extras,
    reader: ArgsReader,
    args: ArgSet,
    /// Set if events before the range of interest are left out, and the start of that.
    crops: bool,
    starts: Option<i64>,
}

/// A track event from the sorter.
#[derive(Debug)]
pub(super) struct Encoded<'a> {
    pub(super) bytes: &'a [u8],
    /// The index of its data that was decoded in the order of the file.
    pub(super) extra: Option<NonZeroU32>,
    /// The content if it was decoded ahead, and its annotations.
    pub(super) resolved: Option<(&'a Resolved, &'a [Annotation])>,
}

/// The data of waiting events that was decoded in the order of the file.
#[derive(Debug, Default)]
struct Extras {
    all: Vec<Extra>,
    free: Vec<NonZeroU32>,
}

impl Extras {
    fn add(&mut self, extra: Extra) -> Option<NonZeroU32> {
        match self.free.pop() {
            Some(number) => {
                self.all[number.get() as usize - 1] = extra;
                Some(number)
            }
            None => {
                self.all.push(extra);
                NonZeroU32::new(self.all.len() as u32)
            }
        }
    }

    fn take(&mut self, number: Option<NonZeroU32>) -> Extra {
        let Some(number) = number else {
            return Extra::default();
        };
        self.free.push(number);
        std::mem::take(&mut self.all[number.get() as usize - 1])
    }
}

impl TrackEvents {
    /// Leaves out events before the range of interest of the trace.
    pub(super) fn crop(&mut self) {
        self.crops = true;
    }

    /// Handles a restart of the incremental state of a sequence.
    pub(super) fn restarted(&mut self, sequence: u32) {
        if let Some(state) = self.sequences.get_mut(&sequence) {
            state.restart();
        }
    }

    /// Handles a loss of packets of a sequence.
    pub(super) fn lost(&mut self, sequence: u32) {
        if let Some(state) = self.sequences.get_mut(&sequence) {
            state.lose();
        }
    }

    /// Handles the first packet of a sequence.
    pub(super) fn first_packet(&mut self, sequence_id: u32) {
        self.tracks.with_first_packet.insert(sequence_id);
    }

    /// Parses a `TrackDescriptor`.
    pub(super) fn parse_descriptor(&mut self, cx: &mut Context, bytes: &[u8]) {
        self.tracks.parse(cx, bytes);
    }

    /// Parses a `ThreadDescriptor`.
    pub(super) fn parse_thread(&mut self, cx: &mut Context, bytes: &[u8]) {
        names::name_thread(cx, bytes, None);
    }

    /// Parses a `ProcessDescriptor`.
    pub(super) fn parse_process(&mut self, cx: &mut Context, bytes: &[u8]) {
        names::name_process(cx, bytes);
    }

    /// Parses a `TrackEvent`.
    pub(super) fn parse(
        &mut self,
        cx: &mut Context,
        ts: i64,
        encoded: Encoded<'_>,
        state: EventState<'_>,
        stacks: &mut Profiles,
    ) {
        let extra = self.extras.take(encoded.extra);
        if self.starts.is_some_and(|start| ts < start) {
            let stat = Stat::track_event_dropped_packets_outside_of_range_of_interest;
            cx.store.stats.add(stat, 1);
            return;
        }
        let (event, size, names) = match encoded.resolved {
            None => {
                let size = encoded.bytes.len();
                (TrackEvent::read(encoded.bytes), size, None)
            }
            Some((resolved, annotations)) => {
                let (event, names) = resolved.event(encoded.bytes, annotations);
                (event, resolved.size(), Some(names))
            }
        };
        let thread = state.state.thread.get();
        self.args.clear();
        let mut applying = Applying {
            cx,
            ts,
            event,
            size,
            names,
            extra: &extra,
            state,
            tracks: &mut self.tracks,
            reader: &mut self.reader,
            stacks,
            args: &mut self.args,
            thread,
            of: Subject::default(),
        };
        if applying.apply().is_err() {
            cx.store.stats.add(Stat::track_event_parser_errors, 1);
        }
    }

    /// Reads an `ExtensionDescriptor`.
    pub(super) fn extension(&mut self, bytes: &[u8]) {
        self.reader.extension(bytes);
    }
}
