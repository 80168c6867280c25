//! The packets of one thread in one recording.

mod body;
mod clock;
mod dynamic;
mod restart;
mod thread_time;

use std::collections::BTreeMap;
use std::sync::Arc;

use ferretto_client::TraceWriter;
use ferretto_engine::{EventBuffer, EventEncoder};
use ferretto_format::{Process, SequenceClocks, SequenceWriter, Thread};

use self::dynamic::Decisions;
use self::thread_time::ThreadTime;
use super::clock as event_clock;
use super::event::{Categories, CounterValue, Event, EventTrack, ShortEvent};
use super::fast::{Accelerator, Sources};
use super::field::Field;
use super::filter::Filter;
use super::interner::Interner;
use super::time::Timestamp;
use super::track::{Identity, Marker, Track, TrackSet};

/// The largest number of incremental counters whose last value is remembered.
const MAX_COUNTERS: usize = 1 << 14;

/// Writes events and their incremental state.
#[derive(Debug)]
pub(super) struct Sequence {
    writer: TraceWriter,
    filter: Arc<Filter>,
    process: &'static Process,
    thread: Thread,
    identity: Identity,
    /// The validity of the incremental state, and the clocks.
    state: SequenceWriter,
    interner: Interner,
    /// Tracks described since the last restart.
    described: TrackSet,
    /// The last values of incremental counters.
    counters: BTreeMap<u64, CounterValue>,
    decisions: Decisions,
    thread_time: Option<ThreadTime>,
    accelerator: Accelerator,
}

/// The time of an event.
#[derive(Clone, Copy, Debug)]
struct When {
    now: u64,
    /// The explicit time of the event, if it has one.
    given: Option<Timestamp>,
}

impl Sequence {
    pub(super) fn new(
        writer: TraceWriter,
        filter: Arc<Filter>,
        process: &'static Process,
        thread: Thread,
    ) -> Self {
        Self {
            state: SequenceWriter::new(
                SequenceClocks::new(
                    filter.timestamp_unit,
                    !filter.absolute_timestamps,
                    event_clock::number(),
                ),
                writer.drop_count(),
            ),
            thread_time: ThreadTime::new(&filter),
            identity: Identity::of(process, &thread),
            writer,
            filter,
            process,
            thread,
            interner: Interner::default(),
            described: TrackSet::default(),
            counters: BTreeMap::new(),
            decisions: Decisions::default(),
            accelerator: Accelerator::new(),
        }
    }

    /// Voids the incremental state; the next event writes it again.
    pub(super) fn clear(&mut self) {
        self.state.clear();
        self.accelerator.pause();
    }

    /// Disables the accelerator.
    #[cfg(test)]
    pub(super) fn without_accelerator(mut self) -> Self {
        self.accelerator.switch_off();
        self
    }

    /// Returns true if the incremental state is void, or so much data followed it that it may have
    /// been overwritten.
    #[inline]
    fn must_restart(&self) -> bool {
        let (drop_count, written) = (self.writer.drop_count(), self.writer.written());
        self.state.must_restart(drop_count, written)
    }

    pub(super) fn flush(&mut self) {
        self.writer.flush(None);
    }

    /// Returns true if the recording wants a dynamic category.
    pub(super) fn wants(&mut self, category: &str) -> bool {
        self.decisions.decide(category, &self.filter)
    }

    /// Computes how far the accelerator may write. Must be called after every write that bypasses
    /// the accelerator.
    fn allow_acceleration(&mut self) {
        let is_usual =
            !self.must_restart() && self.thread_time.is_none() && self.state.clocks().is_plain();
        let until = if is_usual { self.state.renew_at() } else { 0 };
        self.accelerator.allow_until(until);
    }

    /// Writes an event without fields if the accelerator can. Returns false, without any effect, if
    /// not.
    #[inline(always)]
    pub(super) fn short_event(&mut self, now: u64, event: &ShortEvent) -> bool {
        let (writer, state) = (&mut self.writer, &mut self.state);
        self.accelerator.write_short(writer, state, now, event)
    }

    /// Writes an event.
    #[inline(never)]
    pub(super) fn event(&mut self, buffer: &mut EventBuffer, now: u64, event: &Event<'_>) {
        let sources = Sources {
            interner: &self.interner,
            identity: &self.identity,
            described: &self.described,
            hide_arguments: self.filter.hide_arguments,
        };
        let (writer, state) = (&mut self.writer, &mut self.state);
        if !self.accelerator.write(writer, state, &sources, now, event) {
            self.plain_event(buffer, now, event);
            self.allow_acceleration();
        }
    }

    fn plain_event(&mut self, buffer: &mut EventBuffer, now: u64, event: &Event<'_>) {
        if let Categories::Dynamic(name) = event.categories
            && !self.wants(name)
        {
            return;
        }
        let mut when = When { now, given: None };
        let mut track = match event.track {
            EventTrack::Thread => None,
            EventTrack::Track(track) => Some((track, Marker::Slices)),
            EventTrack::Counter(counter) => Some((&counter.track, Marker::Counter(counter))),
            EventTrack::State(state) => Some((&state.track, Marker::State)),
        };
        for field in event.fields {
            match *field {
                Field::Time(time) => when.given = Some(time),
                Field::Track(given)
                    if matches!(event.track, EventTrack::Thread | EventTrack::Track(_)) =>
                {
                    track = Some((given, Marker::Slices));
                }
                _ => {}
            }
        }
        if self.must_restart() && !self.restart(buffer, when) {
            return;
        }
        let track = track.map(|(track, marker)| self.introduce(buffer, when, track, marker));
        self.write(buffer, when, event, track);
    }

    /// Writes the packet of an event on a described track.
    #[inline]
    fn write(
        &mut self,
        buffer: &mut EventBuffer,
        when: When,
        event: &Event<'_>,
        track: Option<u64>,
    ) {
        let body = clock::begin_event(&mut self.state, buffer, when.now, when.given);
        self.write_body(buffer, when, event, track);
        let mut packet = EventEncoder::new(buffer);
        packet.end_nested(body);
        self.interner.new_entries().write_to(&mut packet);
        self.writer.write_packet(buffer.written());
    }

    /// Returns the uuid of a track. Describes the track first if necessary.
    #[inline]
    fn introduce(
        &mut self,
        buffer: &mut EventBuffer,
        when: When,
        track: &Track<'_>,
        marker: Marker<'_>,
    ) -> u64 {
        let uuid = track.number_for(&self.identity);
        if uuid != 0 && !self.described.contains(uuid) {
            self.describe(buffer, when, uuid, track, marker);
        }
        uuid
    }
}
