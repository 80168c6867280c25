//! Counts of data that readers cannot show, in one pass and bounded memory.
//!
//! The tables count the same reasons when they import a trace; a test compares both.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use ferretto_format::clock::{BOOTTIME, SEQUENCE};
use ferretto_format::clock_graph::ClockSnapshot;
use ferretto_format::health::Health;
use ferretto_format::sequence::{Fault, FaultSink, PacketHeader, SequenceReader, SequenceState};
use ferretto_format::stat::Stat;
use ferretto_proto::fields::{
    trace_packet as field, trace_packet_defaults, track_descriptor, track_event,
    track_event_defaults,
};
use ferretto_wire::{Field, Fields};

use crate::limits::{Budget, Limits, entry_bytes};

/// The maximum number of simultaneously open slices of a track.
const MAX_OPEN: u32 = 512;
/// The maximum number of clocks, and of clocks of packets without a conversion.
const MAX_CLOCKS: usize = 1 << 12;
/// The values of `TrackEvent.type`.
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const COUNTER: u64 = 4;
const STATE: u64 = 5;

/// A packet that was read with the state of its sequence.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PacketState {
    pub(crate) fault: Option<Fault>,
    pub(crate) time: Option<Result<u64, Fault>>,
    /// The clock of the time.
    pub(crate) clock: u32,
    /// The default track of events; 0 is none.
    pub(crate) default_track: u64,
}

impl PacketState {
    /// Returns true if the content of the packet is shown.
    pub(crate) fn is_usable(&self) -> bool {
        self.fault.is_none_or(|fault| fault == Fault::NoSequence)
    }

    /// Returns the state of a packet that was not read.
    pub(crate) fn faulty<S: SequenceState>(
        fault: Fault,
        header: &PacketHeader<'_>,
        sequences: &SequenceReader<S>,
    ) -> Self {
        let default = sequences.clocks().default_clock(header.machine);
        Self {
            fault: Some(fault),
            time: sequences.shared_time(header),
            clock: header.clock.filter(|clock| *clock != 0).unwrap_or(default),
            default_track: 0,
        }
    }
}

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
const TRACK_BYTES: usize = entry_bytes::<(u64, Open)>();

/// A clock, with the sequence to which it belongs if it is a sequence's.
type ClockKey = (u32, u32);

/// Counts the data of a trace that readers cannot show.
#[derive(Debug)]
pub(crate) struct HealthCounter {
    budget: Budget,
    health: Health,
    /// The open slices by track.
    open: HashMap<u64, Open>,
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
            open: HashMap::new(),
            counters: BTreeSet::new(),
            related: BTreeMap::new(),
            trace_clock: None,
            unplaced: BTreeMap::new(),
        }
    }

    /// Adds a well-formed packet with its content.
    pub(crate) fn packet(
        &mut self,
        header: &PacketHeader<'_>,
        content: Option<(u32, &[u8])>,
        state: PacketState,
    ) {
        if !header.has_sequence {
            self.without_sequence(header);
        }
        if let Some(snapshot) = header.snapshot {
            return self.snapshot(header.sequence, snapshot);
        }
        if !state.is_usable() {
            // Lost state is a loss of the recording.
            return;
        }
        let is_event = matches!(content, Some((field::TRACK_EVENT, _)));
        match state.time {
            // The clocks of other machines are not known here.
            Some(Err(_)) if header.machine != 0 => return,
            Some(Err(Fault::UnknownClock)) => return self.note_unplaced(header, state.clock),
            Some(Err(_)) => {
                if is_event {
                    self.health.add(Stat::track_event_invalid_timestamp, 1);
                } else if content.is_some() {
                    let stat = Stat::trace_sorter_negative_timestamp_dropped;
                    self.health.add(stat, 1);
                }
                return;
            }
            _ => {}
        }
        match content {
            Some((field::TRACK_EVENT, event)) if header.has_sequence => {
                self.event(header, event, state.default_track);
            }
            Some((field::TRACK_EVENT, _)) => {
                let stat = Stat::track_event_missing_sequence_id;
                self.health.add(stat, 1);
            }
            Some((field::THREAD_DESCRIPTOR, _)) if !header.has_sequence => {
                let stat = Stat::thread_descriptor_missing_sequence_id;
                self.health.add(stat, 1);
            }
            Some((field::TRACK_DESCRIPTOR, descriptor)) => self.descriptor(descriptor),
            _ => {}
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

    fn descriptor(&mut self, bytes: &[u8]) {
        let Some(uuid) = Fields::find(track_descriptor::UUID, bytes).and_then(|id| id.as_u64())
        else {
            return self.health.add(Stat::track_descriptor_missing_uuid, 1);
        };
        let is_counter = Fields::find(track_descriptor::COUNTER, bytes).is_some();
        if is_counter && !self.counters.contains(&uuid) && self.budget.take(entry_bytes::<u64>()) {
            self.counters.insert(uuid);
        }
    }

    fn event(&mut self, header: &PacketHeader<'_>, event: &[u8], default_track: u64) {
        let (mut kind, mut track) = (0, default_track);
        let (mut has_value, mut has_old_time) = (false, false);
        for part in Fields::new(event).map_while(Result::ok) {
            match part.number {
                track_event::TYPE => kind = part.as_u64().unwrap_or(0),
                track_event::TRACK_UUID => track = part.as_u64().unwrap_or(0),
                track_event::COUNTER_VALUE | track_event::DOUBLE_COUNTER_VALUE => has_value = true,
                track_event::TIMESTAMP_DELTA_US | track_event::TIMESTAMP_ABSOLUTE_US => {
                    has_old_time = true;
                }
                _ => {}
            }
        }
        if kind == COUNTER {
            let fault = match (track, has_value, self.counters.contains(&track)) {
                (0, _, _) => Some(Stat::track_event_counter_missing_track_uuid),
                (_, false, _) => Some(Stat::track_event_counter_missing_value),
                (_, _, false) => Some(Stat::track_event_counter_invalid_track_uuid),
                _ => None,
            };
            if let Some(fault) = fault {
                return self.health.add(fault, 1);
            }
        }
        if header.timestamp.is_none() && !has_old_time {
            return self.health.add(Stat::track_event_missing_timestamp, 1);
        }
        match kind {
            STATE if track == 0 => self
                .health
                .add(Stat::track_event_state_missing_track_uuid, 1),
            SLICE_BEGIN => self.begin(header.sequence, track),
            SLICE_END => self.end(header.sequence, track),
            _ => {}
        }
    }

    fn begin(&mut self, sequence: u32, track: u64) {
        let open = match self.open.entry(track) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) if self.budget.take(TRACK_BYTES) => new.insert(Open {
                sequence,
                slices: 0,
                too_deep: 0,
                is_shared: false,
            }),
            Entry::Vacant(_) => return,
        };
        open.is_shared |= open.sequence != sequence;
        if open.slices < MAX_OPEN {
            open.slices += 1;
        } else {
            open.too_deep += 1;
        }
    }

    fn end(&mut self, sequence: u32, track: u64) {
        let Some(open) = self.open.get_mut(&track) else {
            return;
        };
        open.is_shared |= open.sequence != sequence;
        open.slices = open.slices.saturating_sub(1);
        if open.slices == 0 && open.too_deep == 0 {
            self.open.remove(&track);
            self.budget.give_back(TRACK_BYTES);
        }
    }
}

/// Returns the key of a clock: clocks of a sequence belong to it, others to the trace.
fn clock_key(sequence: u32, clock: u32) -> ClockKey {
    match SEQUENCE.contains(&clock) {
        true => (sequence, clock),
        false => (0, clock),
    }
}

/// Counts the data of a trace that readers cannot show, packet by packet.
#[derive(Debug)]
pub struct HealthReader {
    sequences: SequenceReader<DefaultTrack>,
    counter: HealthCounter,
}

impl HealthReader {
    /// Creates a reader.
    pub fn new(limits: Limits) -> Self {
        let budget = limits.budget();
        Self {
            sequences: SequenceReader::new(&budget),
            counter: HealthCounter::new(&budget),
        }
    }

    /// Adds one encoded `TracePacket`.
    pub fn add(&mut self, packet: &[u8]) {
        let mut content = None;
        let header = PacketHeader::read(packet, |part: Field<'_>| {
            if let Some(bytes) = part.as_bytes() {
                content = Some((part.number, bytes));
            }
        });
        let Some(header) = header else { return };
        let state = match self.sequences.read(&header, &mut |_| {}) {
            Ok(Some(context)) => PacketState {
                fault: None,
                time: context.time,
                clock: context.clock,
                default_track: context.state.track(),
            },
            Ok(None) => PacketState::default(),
            Err(fault) => PacketState::faulty(fault, &header, &self.sequences),
        };
        self.counter.packet(&header, content, state);
    }

    /// Returns the counts at the end of the trace.
    pub fn finish(self) -> Health {
        self.counter.finish()
    }
}

/// The default track of a sequence's events; 0 is none.
#[derive(Debug)]
pub(crate) struct DefaultTrack(u64);

impl DefaultTrack {
    /// Returns the track.
    pub(crate) fn track(&self) -> u64 {
        self.0
    }
}

impl SequenceState for DefaultTrack {
    fn new(_: &Budget) -> Self {
        Self(0)
    }

    fn restart(&mut self) {
        self.0 = 0;
    }

    fn set_defaults(&mut self, defaults: &[u8]) {
        let event = Fields::find(trace_packet_defaults::TRACK_EVENT_DEFAULTS, defaults);
        let event = event.and_then(|event| event.as_bytes()).unwrap_or_default();
        let track = Fields::find(track_event_defaults::TRACK_UUID, event);
        self.0 = track.and_then(|track| track.as_u64()).unwrap_or(0);
    }

    fn intern(&mut self, _: &[u8], _: FaultSink<'_>) {}
}
