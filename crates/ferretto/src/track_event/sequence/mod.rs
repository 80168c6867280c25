//! The packets of one thread in one recording.

mod body;
mod clock;
mod dynamic;
mod prefix;
mod quick;
mod reset;
mod thread_time;
mod uuids;

use std::collections::HashMap;
use std::sync::Arc;

use ferretto_client::TraceWriter;
use ferretto_engine::{EventBuffer, EventEncoder, Identity, Process, Thread};
use ferretto_format::{EventClocks, IncrementalState};
use ferretto_proto::fields::trace_packet;

use self::dynamic::Decisions;
use self::prefix::{Key, Prefixes};
use self::thread_time::ThreadTime;
use self::uuids::Uuids;
use super::clock as event_clock;
use super::event::{Categories, CounterValue, Event, Kind, Place, ShortEvent};
use super::fast::short_timestamp;
use super::field::Field;
use super::filter::Filter;
use super::interner::Interner;
use super::time::Timestamp;
use super::track::{Marker, Track};

/// Most incremental counters whose last value is remembered.
const MAX_COUNTERS: usize = 1 << 14;

/// Writes events and whatever they need to be understood.
#[derive(Debug)]
pub(super) struct Sequence {
    writer: TraceWriter,
    filter: Arc<Filter>,
    process: &'static Process,
    thread: Thread,
    identity: Identity,
    clocks: EventClocks,
    interner: Interner,
    prefixes: Prefixes,
    /// Tracks described since the last reset.
    described: Uuids,
    /// What incremental counters were last set to.
    counters: HashMap<u64, CounterValue>,
    decisions: Decisions,
    thread_time: Option<ThreadTime>,
    state: IncrementalState,
    /// Until the writer has written so much, events may be written quickly; 0 if not even the next.
    quick_until: u64,
}

/// When an event happens.
#[derive(Clone, Copy, Debug)]
struct When {
    now: u64,
    /// The time the event was given, if it was given one.
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
            clocks: EventClocks::new(
                filter.timestamp_unit,
                !filter.absolute_timestamps,
                event_clock::number(),
            ),
            state: IncrementalState::new(writer.drop_count()),
            thread_time: ThreadTime::new(&filter),
            identity: Identity::of(process, &thread),
            writer,
            filter,
            process,
            thread,
            interner: Interner::default(),
            prefixes: Prefixes::new(),
            described: Uuids::default(),
            counters: HashMap::new(),
            decisions: Decisions::default(),
            quick_until: 0,
        }
    }

    /// Forgets what was interned, before the next event.
    pub(super) fn clear(&mut self) {
        self.state.clear();
        self.quick_until = 0;
    }

    /// Whether what was written before cannot be relied on, or is so much that it may have been overwritten.
    #[inline]
    fn must_start_anew(&self) -> bool {
        let (drop_count, written) = (self.writer.drop_count(), self.writer.written());
        self.state.must_restart(drop_count, written)
    }

    pub(super) fn flush(&mut self) {
        self.writer.flush(None);
    }

    /// Whether a category named at run time is to be recorded.
    pub(super) fn wants(&mut self, category: &str) -> bool {
        self.decisions.decide(category, &self.filter)
    }

    /// Whether what was written before can be relied on, and events carry nothing unusual.
    #[inline(always)]
    fn is_usual(&self) -> bool {
        self.writer.written() < self.quick_until
    }

    /// Finds out until when this is so. To be called after anything was written that was not [usual](Self::is_usual):
    /// only then packets may have been lost.
    fn settle(&mut self) {
        let is_usual =
            !self.must_start_anew() && self.thread_time.is_none() && self.clocks.is_plain();
        self.quick_until = if is_usual { self.state.renew_at() } else { 0 };
    }

    /// Writes an event to which nothing is attached, if it is as short as most are and needs nothing explained. Returns
    /// whether it did; if not, nothing has happened.
    #[inline(always)]
    pub(super) fn short_event(&mut self, now: u64, event: &ShortEvent) -> bool {
        self.try_short_event(now, event).is_some()
    }

    #[inline(always)]
    fn try_short_event(&mut self, now: u64, event: &ShortEvent) -> Option<()> {
        if !self.is_usual() {
            return None;
        }
        let behind_time = match *event {
            ShortEvent::End => const { prefix::bare(Kind::End) },
            ShortEvent::Named {
                kind,
                category,
                name,
            } => {
                let category = std::ptr::from_ref(category).addr();
                let key = Key::new(kind, category, name);
                self.prefixes.get(key)?.whole()
            }
        };
        let time = short_timestamp(self.clocks.difference(now)?)?;
        if !self.writer.write_short_packet(time, behind_time) {
            return None;
        }
        self.clocks.advance(now);
        Some(())
    }

    /// Writes an event.
    #[inline(never)]
    pub(super) fn event(&mut self, buffer: &mut EventBuffer, now: u64, event: &Event<'_>) {
        if !self.quick_event(now, event) {
            self.any_event(buffer, now, event);
            self.settle();
        }
    }

    fn any_event(&mut self, buffer: &mut EventBuffer, now: u64, event: &Event<'_>) {
        if let Categories::Dynamic(name) = event.categories
            && !self.wants(name)
        {
            return;
        }
        let mut when = When { now, given: None };
        let mut track = match event.place {
            Place::Thread => None,
            Place::Track(track) => Some((track, Marker::Slices)),
            Place::Counter(counter) => Some((&counter.track, Marker::Counter(counter))),
            Place::State(state) => Some((&state.track, Marker::State)),
        };
        for field in event.fields {
            match *field {
                Field::Time(time) => when.given = Some(time),
                Field::Track(given) if matches!(event.place, Place::Thread | Place::Track(_)) => {
                    track = Some((given, Marker::Slices));
                }
                _ => {}
            }
        }
        if self.must_start_anew() && !self.reset(buffer, when) {
            return;
        }
        let track = track.map(|(track, marker)| self.introduce(buffer, when, track, marker));
        self.write(buffer, when, event, track);
    }

    /// Writes the packet of an event on a track that has been described.
    #[inline]
    fn write(
        &mut self,
        buffer: &mut EventBuffer,
        when: When,
        event: &Event<'_>,
        track: Option<u64>,
    ) {
        let body = clock::begin_event(&mut self.clocks, buffer, when.now, when.given);
        self.write_body(buffer, when, event, track);
        EventEncoder::new(buffer).end_nested(body);
        if !self.interner.pending().is_empty() {
            self.write_interned(buffer);
        }
        self.writer.write_packet(buffer.written());
    }

    #[cold]
    fn write_interned(&mut self, buffer: &mut EventBuffer) {
        EventEncoder::new(buffer).bytes(trace_packet::INTERNED_DATA, self.interner.pending());
        self.interner.written();
    }

    /// The number of a track, which is described if it was not before.
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
