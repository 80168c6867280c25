//! The initial state of a part of a trace: all data that its packets need from earlier ones.

pub(crate) mod events;
mod kernel;
pub(crate) mod sequence;
mod stack;
mod system;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use ferretto_format::budget::Budget;
use ferretto_format::clock::{BOOTTIME, SEQUENCE};
use ferretto_format::clock_graph::{ClockId, ClockSnapshot};
use ferretto_format::machine_clock::MachineClocks;
use ferretto_format::sequence::{Clocks, Fault, PacketContext, PacketHeader, SequenceReader};
use ferretto_format::sequence_flags::INCREMENTAL_STATE_CLEARED;
use ferretto_format::track_event::{EventTimes, MissingBase, TimeFault, TrackEvent};
use ferretto_proto::fields::{trace_packet as kind, track_descriptor};
use ferretto_wire::{Encoder, Field, Fields, encode};

use self::events::Events;
use self::kernel::Kernel;
use self::sequence::{Epoch, Incremental, Writer};
use self::system::System;
use crate::bundle::Bundle;
use crate::kinds;

/// The number of clock snapshots that are kept in addition to the first one.
const SNAPSHOTS: usize = 2;

/// The maximum delay of packets relative to others of the same time, in nanoseconds.
const BEHIND: u64 = 5_000_000_000;

/// The timestamps for a machine's state.
#[derive(Debug, Clone, Copy)]
struct When {
    /// A common timestamp. Otherwise entries keep their own times, unless those are too old.
    at: Option<u64>,
    latest: u64,
}

impl When {
    fn of(self, own: u64) -> u64 {
        let least = self.latest.saturating_sub(BEHIND);
        self.at.unwrap_or(own.max(least))
    }

    /// Returns the timestamp for the state of a CPU with this last event: before events at the
    /// common timestamp.
    fn of_cpu(self, last: u64) -> u64 {
        match self.at {
            Some(at) => at.saturating_sub(1),
            None => self.of(last),
        }
    }
}

/// The key of a descriptor: its kind, its sequence if it has no uuid, and its uuid.
type Described = (u32, u32, u64);

/// Information about a packet.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) writer: Writer,
    /// The timestamp in boot time of its machine.
    pub(crate) time: Option<u64>,
    pub(crate) is_cleared: bool,
    pub(crate) needs_state: bool,
    /// True if later packets of its sequence depend on it.
    pub(crate) concerns_sequence: bool,
    /// True if its timestamp is on a sequence-scoped clock.
    pub(crate) is_on_own_clock: bool,
    /// The times of a track event that has them in the encoding of old writers.
    pub(crate) relative: Option<Result<EventTimes, MissingBase>>,
    /// The clock snapshot in it: its boot time, and true if it has sequence-scoped clocks.
    pub(crate) snapshot: Option<(Option<u64>, bool)>,
    /// The numbers of its content fields.
    pub(crate) content: Vec<u32>,
}

/// The state at some point of a trace.
#[derive(Debug)]
pub(crate) struct State {
    budget: Budget,
    sequences: SequenceReader<Incremental>,
    /// The epochs and restart counts of sequences at the searched time, for sequences with later
    /// packets.
    frozen: BTreeMap<u32, (Rc<Epoch>, u64)>,
    /// The last timestamp of each sequence.
    last: BTreeMap<u32, u64>,
    about_all: Vec<Vec<u8>>,
    first_snapshot: Option<Vec<u8>>,
    snapshots: Vec<Vec<u8>>,
    pub(crate) descriptors: BTreeMap<Described, Vec<u8>>,
    events: Events,
    kernels: BTreeMap<u32, Kernel>,
    systems: BTreeMap<u32, System>,
    machines: MachineClocks,
    /// The first and the last time of an event, on the clock of the host.
    pub(crate) first: Option<u64>,
    pub(crate) latest: u64,
    /// True if kernel events are ignored.
    is_only_sequences: bool,
}

impl State {
    pub(crate) fn new(budget: &Budget) -> Self {
        Self {
            sequences: SequenceReader::new(budget),
            frozen: BTreeMap::new(),
            last: BTreeMap::new(),
            about_all: Vec::new(),
            first_snapshot: None,
            snapshots: Vec::new(),
            descriptors: BTreeMap::new(),
            events: Events::new(budget),
            kernels: BTreeMap::new(),
            systems: BTreeMap::new(),
            machines: MachineClocks::default(),
            first: None,
            latest: 0,
            is_only_sequences: false,
            budget: budget.clone(),
        }
    }

    /// Creates a state that only tracks sequences and clocks.
    pub(crate) fn of_sequences(budget: &Budget) -> Self {
        Self {
            is_only_sequences: true,
            ..Self::new(budget)
        }
    }

    /// Returns the global clocks.
    pub(crate) fn clocks(&self) -> &Clocks {
        self.sequences.clocks()
    }

    /// Returns the number of entries left out because of the memory limit.
    pub(crate) fn left_out(&self) -> u64 {
        self.budget.refused()
    }

    /// Converts a time of the host to the clock of a machine.
    pub(crate) fn on_machine(&self, machine: u32, host: u64) -> u64 {
        self.machines.from_host(machine, host)
    }

    /// Adds a packet. Events at or after `until`, in time of the host, do not change the state.
    pub(crate) fn add(&mut self, packet: &[u8], until: u64) -> Seen {
        let mut content: Vec<Field<'_>> = Vec::new();
        let (header, _) = PacketHeader::read_prefix(packet, |field| content.push(field));
        let writer = Writer {
            sequence: header.sequence,
            machine: header.machine,
            uid: header.uid,
            pid: header.pid,
            clock: self.sequences.clocks().base(),
        };
        let mut seen = Seen {
            writer,
            is_cleared: header.is_cleared,
            needs_state: header.needs_state,
            concerns_sequence: header.concerns_sequence(),
            snapshot: header.snapshot.map(of_snapshot),
            content: content.iter().map(|field| field.number).collect(),
            ..Seen::default()
        };
        let machine = header.machine;
        let until = match until {
            u64::MAX => until,
            until => self.on_machine(machine, until),
        };
        if let Some((boot, false)) = seen.snapshot
            && boot.is_none_or(|boot| boot < until)
        {
            self.keep_snapshot(packet);
        }
        // The state before this packet.
        let epoch = self.sequences.state_mut(header.sequence);
        let epoch = epoch.map(|state| (Rc::clone(&state.epoch), state.starts));
        let shared = self.sequences.shared_time(&header);
        let context = self.sequences.read(&header, &mut |_| {}).ok().flatten();
        let is_decoded = context.is_some();
        let time = match context {
            Some(context) => {
                let clock = header.clock.or(context.state.clock);
                seen.is_on_own_clock = clock.is_some_and(|clock| SEQUENCE.contains(&clock));
                time_of_event(context, machine, &content, &mut seen.relative)
            }
            None => shared,
        };
        seen.time = time.and_then(Result::ok);
        let is_early = seen.time.is_none_or(|time| time < until);
        if let Some(time) = seen.time {
            if !is_early && let Some(epoch) = epoch {
                self.frozen.entry(header.sequence).or_insert(epoch);
            }
            let last = self.last.entry(header.sequence).or_default();
            *last = time.max(*last);
        }
        let mut event_time = None;
        for field in &content {
            let bytes = field.as_bytes().unwrap_or_default();
            let of_time = || seen.time.filter(|_| is_early);
            match field.number {
                kind::TRACK_EVENT => {
                    event_time = seen.time;
                    let state = self.sequences.state_mut(header.sequence);
                    if let (Some(time), Some(state), true) = (of_time(), state, is_decoded) {
                        self.events.add(writer, state, time, packet, bytes);
                        if let Some(Ok(times)) = seen.relative {
                            self.events.add_times(writer, state, time, bytes, times);
                        }
                    }
                }
                kind::FTRACE_EVENTS if self.is_only_sequences => {}
                kind::FTRACE_EVENTS => {
                    self.kernel_events(writer, bytes, until);
                }
                kind::PROCESS_TREE if is_early => {
                    self.system(machine).tree(writer, seen.time, bytes);
                }
                kind::PROCESS_STATS if is_early => {
                    self.system(machine).statistics(writer, seen.time, bytes);
                }
                number if kinds::is_measurement(number) => {
                    event_time = seen.time;
                    if let Some(time) = of_time() {
                        self.system(machine).measure(writer, time, field);
                    }
                }
                number if kinds::is_descriptor(number) => {
                    self.describe(writer, field, bytes);
                }
                kind::TRACE_ATTRIBUTES if kinds::is_window(bytes) => {}
                number if kinds::is_about_all(number) => {
                    if number == kind::REMOTE_CLOCK_SYNC {
                        self.machines.compare(machine, bytes);
                    }
                    if self.budget.take(packet.len()) {
                        self.about_all.push(packet.to_vec());
                    }
                }
                kind::MODULE_SYMBOLS => {}
                number if kinds::is_about_end(number) => {}
                _ => event_time = seen.time,
            }
        }
        if let Some(time) = event_time {
            let host = self.machines.to_host(machine, time);
            self.first = Some(self.first.map_or(host, |first| first.min(host)));
            self.latest = self.latest.max(host);
        }
        seen
    }

    /// Stores a clock snapshot. The first one and the newest ones are kept.
    fn keep_snapshot(&mut self, packet: &[u8]) {
        if self.first_snapshot.is_none() {
            self.first_snapshot = Some(packet.to_vec());
            return;
        }
        if self.snapshots.len() == SNAPSHOTS {
            self.snapshots.remove(0);
        }
        self.snapshots.push(packet.to_vec());
    }

    /// Adds the kernel events of a bundle before `until`, a time on the clock of their machine.
    fn kernel_events(&mut self, writer: Writer, bytes: &[u8], until: u64) {
        let machine = writer.machine;
        let bundle = Bundle::read(bytes, machine, self.sequences.clocks());
        let kernel = self
            .kernels
            .entry(machine)
            .or_insert_with(|| Kernel::new(writer, &self.budget));
        let (first, latest, machines) = (&mut self.first, &mut self.latest, &self.machines);
        kernel.add(&bundle, until, |time| {
            let host = machines.to_host(machine, time);
            *first = Some(first.map_or(host, |first| first.min(host)));
            *latest = host.max(*latest);
        });
        for (pid, time) in kernel.take_ended() {
            self.system(machine).thread_ended(pid, time);
        }
    }

    fn system(&mut self, machine: u32) -> &mut System {
        let systems = self.systems.entry(machine);
        systems.or_insert_with(|| System::new(&self.budget))
    }

    /// Returns the key of a descriptor, and a packet that repeats it.
    pub(crate) fn description(
        writer: Writer,
        field: &Field<'_>,
        bytes: &[u8],
    ) -> (Described, Vec<u8>) {
        let uuid = match field.number {
            kind::TRACK_DESCRIPTOR => Fields::find(track_descriptor::UUID, bytes),
            _ => None,
        };
        let uuid = uuid.and_then(|uuid| uuid.as_u64()).unwrap_or(0);
        let sequence = if uuid == 0 { writer.sequence } else { 0 };
        let packet = encode(|out| {
            writer.write(out);
            out.bytes(field.number, bytes);
        });
        ((field.number, sequence, uuid), packet)
    }

    fn describe(&mut self, writer: Writer, field: &Field<'_>, bytes: &[u8]) {
        if field.number == kind::TRACK_DESCRIPTOR {
            self.events.describe(bytes);
        }
        let (of, packet) = Self::description(writer, field, bytes);
        match self.descriptors.get_mut(&of) {
            Some(known) => *known = packet,
            None if self.budget.take(packet.len() + 128) => {
                self.descriptors.insert(of, packet);
            }
            None => {}
        }
    }

    /// Returns a packet that restores the current state of a sequence.
    pub(crate) fn state_now(&mut self, writer: &Writer) -> Option<Vec<u8>> {
        let state = self.sequences.state_mut(writer.sequence)?;
        Some(state.epoch.packet(writer))
    }

    /// Writes the packets at the start of a part: the state at `at`, in time of the host, or the
    /// current state. Returns the sequences whose incremental state was also written.
    pub(crate) fn write(&mut self, at: Option<u64>, out: &mut dyn FnMut(Vec<u8>)) -> BTreeSet<u32> {
        let snapshots = self.first_snapshot.iter().chain(&self.snapshots);
        snapshots.cloned().for_each(&mut *out);
        self.about_all.iter().cloned().for_each(&mut *out);
        for ((number, ..), packet) in &self.descriptors {
            out(if *number == kind::THREAD_DESCRIPTOR {
                restarting(packet)
            } else {
                packet.clone()
            });
        }
        let (latest, machines) = (self.latest, &self.machines);
        let of_machine = |machine: &u32| When {
            at: at.map(|at| machines.from_host(*machine, at)),
            latest: machines.from_host(*machine, latest),
        };
        for (machine, system) in &self.systems {
            system.write(of_machine(machine), out);
        }
        for (machine, kernel) in &mut self.kernels {
            let system = self.systems.get(machine);
            let is_described = |pid| system.is_some_and(|system| system.has(pid));
            kernel.write(of_machine(machine), is_described, out);
        }
        let last = &self.last;
        let when = |sequence: u32, own: u64| match at {
            Some(at) => at.max(own),
            None => last.get(&sequence).copied().unwrap_or(0).max(own),
        };
        let frozen = &self.frozen;
        let mut epochs = BTreeMap::new();
        for (sequence, state) in self.sequences.states() {
            let now = || (Rc::clone(&state.epoch), state.starts);
            epochs.insert(sequence, frozen.get(&sequence).cloned().unwrap_or_else(now));
        }
        let state_of = |writer: &Writer| {
            let epoch = epochs.get(&writer.sequence);
            epoch.map_or_else(Vec::new, |(epoch, _)| epoch.packet(writer))
        };
        let starts_of = |sequence| epochs.get(&sequence).map_or(0, |(_, starts)| *starts);
        self.events.write(when, state_of, starts_of, out)
    }
}

/// Returns a packet that restarts its sequence. Readers ignore the thread of a sequence without a
/// state.
pub(crate) fn restarting(packet: &[u8]) -> Vec<u8> {
    let flag = |out: &mut Encoder<'_, Vec<u8>>| {
        out.varint(kind::SEQUENCE_FLAGS, INCREMENTAL_STATE_CLEARED);
    };
    [packet, &encode(flag)].concat()
}

/// Returns the time of a packet. A relative time of its track event takes precedence.
fn time_of_event(
    context: PacketContext<'_, Incremental>,
    machine: u32,
    content: &[Field<'_>],
    relative: &mut Option<Result<EventTimes, MissingBase>>,
) -> Option<Result<u64, Fault>> {
    let state = &mut context.state.event;
    for field in content {
        let bytes = field.as_bytes().unwrap_or_default();
        if field.number != kind::TRACK_EVENT {
            state.describe(field.number, bytes);
            continue;
        }
        let event = TrackEvent::read(bytes);
        if !event.has_relative_times {
            continue;
        }
        let time = state.relative_time(&event, context.time, machine, context.clocks);
        return match time {
            Ok((time, times)) => {
                *relative = Some(Ok(times));
                time.map(Ok)
            }
            Err(TimeFault::Base(missing)) => {
                *relative = Some(Err(missing));
                None
            }
            Err(TimeFault::Clock(fault)) => Some(Err(fault)),
        };
    }
    context.time
}

/// Returns the boot time of a snapshot, and true if it has sequence-scoped clocks.
fn of_snapshot(bytes: &[u8]) -> (Option<u64>, bool) {
    let snapshot = ClockSnapshot::read(bytes, 0, 0, 0);
    let mut clocks = snapshot.readings.iter().map(|reading| reading.clock.id);
    let is_of_sequence = clocks.any(ClockId::is_of_sequence);
    (snapshot.time_of(BOOTTIME), is_of_sequence)
}
