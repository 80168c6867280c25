//! Counts of data that readers cannot show, in one pass and bounded memory.
//!
//! The tables count the same reasons when they import a trace; a test compares both.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use ferretto_format::clock::{BOOTTIME, SEQUENCE};
use ferretto_format::clock_graph::ClockSnapshot;
use ferretto_format::health::Health;
use ferretto_format::sequence::{Fault, PacketHeader};
use ferretto_format::stat::Stat;
use ferretto_format::track_event::{EventKind, EventTrack, MissingBase};
use ferretto_proto::fields::trace_packet as field;
use ferretto_proto::views::TrackDescriptorView;

use crate::limits::{Budget, EventMap, Limits, entry_bytes};
use crate::walk::{Content, PacketState, SequenceEvent, Walk};

/// The maximum number of simultaneously open slices of a track.
const MAX_OPEN: u32 = 512;
/// The maximum number of clocks, and of clocks of packets without a conversion.
const MAX_CLOCKS: usize = 1 << 12;
/// The open slices of a track.
#[derive(Debug)]
struct Open {
    sequence: u32,
    slices: u32,
    /// The number of begin events beyond the maximum depth.
    too_deep: u64,
    /// Set if several sequences write to the track. Their events are not in the order of time, so
    /// their depth is unknown.
    is_shared: bool,
}

/// The memory of a track.
const TRACK_BYTES: usize = entry_bytes::<(EventTrack, Open)>();

/// A clock, with the sequence to which it belongs if it is a sequence's.
type ClockKey = (u32, u32);

/// Counts the data of a trace that readers cannot show.
#[derive(Debug)]
pub(crate) struct HealthCounter {
    budget: Budget,
    health: Health,
    /// The open slices by track.
    open: EventMap<EventTrack, Open>,
    counters: BTreeSet<u64>,
    /// The clocks of snapshots, each with a clock that it is related to.
    related: BTreeMap<ClockKey, ClockKey>,
    trace_clock: Option<u32>,
    /// The number of packets by clock whose time could not be converted when they were read. A
    /// later snapshot may relate their clock to others.
    unplaced: BTreeMap<ClockKey, u64>,
}

impl HealthCounter {
    pub(crate) fn new(budget: &Budget) -> Self {
        Self {
            budget: budget.clone(),
            health: Health::default(),
            open: EventMap::default(),
            counters: BTreeSet::new(),
            related: BTreeMap::new(),
            trace_clock: None,
            unplaced: BTreeMap::new(),
        }
    }

    /// Adds a well-formed packet with its content. Returns the reason if readers leave the content
    /// out.
    pub(crate) fn packet(
        &mut self,
        header: &PacketHeader<'_>,
        content: Option<Content<'_>>,
        state: &PacketState<'_>,
    ) -> Option<Stat> {
        if !header.has_sequence {
            self.without_sequence(header);
        }
        if let Some(snapshot) = header.snapshot {
            self.snapshot(header.sequence, snapshot);
            return None;
        }
        // Lost state is a loss of the recording.
        let content = content.filter(|_| state.is_usable())?;
        let left_out = self.content(header, content, state);
        if let Some(stat) = left_out {
            self.health.add(stat, 1);
        }
        left_out
    }

    /// Adds the content of a packet. Returns the reason if it is left out.
    fn content(
        &mut self,
        header: &PacketHeader<'_>,
        (kind, body): Content<'_>,
        state: &PacketState<'_>,
    ) -> Option<Stat> {
        match state.time {
            // The clocks of other machines are not known here.
            Some(Err(_)) if header.machine != 0 => return None,
            Some(Err(Fault::UnknownClock)) => {
                self.note_unplaced(header, state.clock);
                return None;
            }
            Some(Err(_)) if kind == field::TRACK_EVENT => {
                return Some(Stat::track_event_invalid_timestamp);
            }
            Some(Err(_)) => return Some(Stat::trace_sorter_negative_timestamp_dropped),
            _ => {}
        }
        match kind {
            field::TRACK_EVENT if !header.has_sequence => {
                Some(Stat::track_event_missing_sequence_id)
            }
            field::TRACK_EVENT => self.event(header, state.event.as_ref()?, state.time.is_some()),
            field::THREAD_DESCRIPTOR if !header.has_sequence => {
                Some(Stat::thread_descriptor_missing_sequence_id)
            }
            field::TRACK_DESCRIPTOR => self.descriptor(body),
            _ => None,
        }
    }

    /// Returns the counts at the end of the trace.
    pub(crate) fn finish(mut self) -> Health {
        let target = (0, self.trace_clock.unwrap_or(BOOTTIME));
        for (clock, count) in std::mem::take(&mut self.unplaced) {
            let stat = if !self.related.contains_key(&clock) {
                Stat::clock_sync_failure_unknown_source_clock
            } else if self.root(clock) != self.root(target) {
                Stat::clock_sync_failure_no_path
            } else {
                continue;
            };
            self.health.add(stat, count);
        }
        for open in self.open.into_values().filter(|open| !open.is_shared) {
            let stat = Stat::slice_max_depth_exceeded;
            self.health.add(stat, open.too_deep);
        }
        self.health
    }

    /// Counts the state of a packet without a sequence, which is lost.
    fn without_sequence(&mut self, header: &PacketHeader<'_>) {
        let mut add = |is_set, stat| self.health.add(stat, u64::from(is_set));
        let has_loss = !header.is_cleared && !header.loss.is_none();
        add(
            header.is_cleared,
            Stat::incremental_state_cleared_missing_sequence_id,
        );
        add(has_loss, Stat::previous_packet_dropped_missing_sequence_id);
        add(
            header.defaults.is_some(),
            Stat::trace_packet_defaults_missing_sequence_id,
        );
        add(
            header.interned.is_some(),
            Stat::interned_data_missing_sequence_id,
        );
    }

    fn note_unplaced(&mut self, header: &PacketHeader<'_>, clock: u32) {
        let key = clock_key(header.sequence, clock);
        if self.unplaced.len() < MAX_CLOCKS || self.unplaced.contains_key(&key) {
            *self.unplaced.entry(key).or_default() += 1;
        }
    }

    /// Relates the clocks of a `ClockSnapshot`.
    fn snapshot(&mut self, sequence: u32, bytes: &[u8]) {
        let snapshot = ClockSnapshot::read(bytes, 0, sequence, 0);
        let mut first = None;
        for reading in &snapshot.readings {
            let clock = clock_key(sequence, reading.clock.id);
            if self.related.len() < MAX_CLOCKS {
                self.related.entry(clock).or_insert(clock);
            }
            let first = *first.get_or_insert(clock);
            let (one, other) = (self.root(first), self.root(clock));
            if let Some(known) = self.related.get_mut(&other) {
                *known = one;
            }
        }
        let chosen = snapshot.primary.map(|clock| clock.id);
        self.trace_clock = self.trace_clock.or(chosen);
    }

    /// Returns the clock that stands for all clocks related to this one.
    fn root(&self, mut clock: ClockKey) -> ClockKey {
        while let Some(next) = self.related.get(&clock).filter(|next| **next != clock) {
            clock = *next;
        }
        clock
    }

    fn descriptor(&mut self, bytes: &[u8]) -> Option<Stat> {
        let descriptor = TrackDescriptorView::read(bytes);
        let Some(uuid) = descriptor.uuid else {
            return Some(Stat::track_descriptor_missing_uuid);
        };
        let is_counter = descriptor.counter.is_some();
        if is_counter && !self.counters.contains(&uuid) && self.budget.take(entry_bytes::<u64>()) {
            self.counters.insert(uuid);
        }
        None
    }

    fn event(
        &mut self,
        header: &PacketHeader<'_>,
        event: &SequenceEvent<'_>,
        has_time: bool,
    ) -> Option<Stat> {
        use Stat::{
            track_event_skipped_thread_instruction_delta_without_valid_state as no_instructions,
            track_event_skipped_thread_time_delta_without_valid_state as no_thread_time,
            track_event_skipped_timestamp_delta_without_valid_state as no_time,
        };
        match event.missing {
            Some(MissingBase::Time) => return Some(no_time),
            Some(MissingBase::ThreadTime) => return Some(no_thread_time),
            Some(MissingBase::Instructions) => return Some(no_instructions),
            None => {}
        }
        let kind = event.encoded.kind();
        let uuid = event.uuid.filter(|uuid| *uuid != 0);
        if kind == Some(EventKind::Counter) {
            let has_value = event.encoded.counter.is_some();
            match uuid {
                None => return Some(Stat::track_event_counter_missing_track_uuid),
                Some(_) if !has_value => return Some(Stat::track_event_counter_missing_value),
                Some(uuid) if !self.counters.contains(&uuid) => {
                    return Some(Stat::track_event_counter_invalid_track_uuid);
                }
                Some(_) => {}
            }
        }
        if !has_time {
            return Some(Stat::track_event_missing_timestamp);
        }
        match kind {
            Some(EventKind::State) if uuid.is_none() => {
                return Some(Stat::track_event_state_missing_track_uuid);
            }
            Some(EventKind::Begin) => self.begin(header.sequence, event),
            Some(EventKind::End) => self.end(header.sequence, event),
            _ => {}
        }
        None
    }

    fn begin(&mut self, sequence: u32, event: &SequenceEvent<'_>) {
        let open = match self.open.entry(event.track) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) if self.budget.take(TRACK_BYTES) => new.insert(Open {
                sequence,
                slices: 0,
                too_deep: 0,
                is_shared: false,
            }),
            Entry::Vacant(_) => return,
        };
        if open.slices == 0 && open.too_deep == 0 {
            (open.sequence, open.is_shared) = (sequence, false);
        }
        open.is_shared |= open.sequence != sequence;
        if open.slices < MAX_OPEN {
            open.slices += 1;
        } else {
            open.too_deep += 1;
        }
    }

    fn end(&mut self, sequence: u32, event: &SequenceEvent<'_>) {
        let Some(open) = self.open.get_mut(&event.track) else {
            return;
        };
        open.is_shared |= open.sequence != sequence;
        open.slices = open.slices.saturating_sub(1);
        // The next slice of a thread follows: its track stays.
        if open.slices == 0 && open.too_deep == 0 && !event.is_on_own_track {
            self.open.remove(&event.track);
            self.budget.give_back(TRACK_BYTES);
        }
    }
}

/// Returns the key of a clock: clocks of a sequence belong to it, others to the trace.
fn clock_key(sequence: u32, clock: u32) -> ClockKey {
    if SEQUENCE.contains(&clock) {
        (sequence, clock)
    } else {
        (0, clock)
    }
}

/// Counts the data of a trace that readers cannot show, packet by packet.
#[derive(Debug)]
pub struct HealthReader {
    walk: Walk,
    counter: HealthCounter,
}

impl HealthReader {
    /// Creates a reader.
    pub fn new(limits: Limits) -> Self {
        let budget = limits.budget();
        Self {
            walk: Walk::new(&budget),
            counter: HealthCounter::new(&budget),
        }
    }

    /// Adds one encoded `TracePacket`. Returns the reason if readers leave its content out.
    pub fn add(&mut self, packet: &[u8]) -> Option<Stat> {
        let (counter, mut left_out) = (&mut self.counter, None);
        self.walk.packet(packet, |header, content, state, _| {
            left_out = counter.packet(header, content, &state);
        });
        left_out
    }

    /// Returns the counts at the end of the trace.
    pub fn finish(self) -> Health {
        self.counter.finish()
    }
}
