//! The time axis of a trace: the times of its first and its last event.
//!
//! All commands count times from the first event: the viewer's ruler, `--from` and `--to`, and the
//! length of a trace. An event is what becomes a row of the tables, such as a slice or a sample:
//! `trace_start()` and `trace_end()` in SQL are the same times, and a test compares them.
//! Descriptions of processes, clock snapshots and the service's own packets are none, and neither
//! is the end of a slice that began before the trace.

use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::io::Read;

use ferretto_format::clock::MONOTONIC_COARSE;
use ferretto_format::compact_sched::{CompactKind, CompactSched};
use ferretto_format::kernel_bundle::BundleHeader;
use ferretto_format::machine_clock::MachineClocks;
use ferretto_format::sample::PerfSample;
use ferretto_format::sequence::{Clocks, PacketHeader};
use ferretto_format::track_event::{EventKind, EventTrack};
use ferretto_proto::fields::{
    ftrace_event, ftrace_event_bundle as bundle, ftrace_stats, process_stats, profile_packet,
    sys_stats, systemd_journald_event as journal, trace_packet as field,
    tracing_service_event as service,
};
use ferretto_wire::{Fields, Value};

use crate::health::HealthCounter;
use crate::limits::{Budget, EventMap, Limits, entry_bytes};
use crate::reader::{ReadError, TraceReader};
use crate::walk::{Content, PacketState, SequenceEvent, Walk};

/// The maximum number of CPUs.
const MAX_CPUS: usize = 1 << 14;
/// The maximum number of machines.
const MAX_MACHINES: usize = 256;

/// The times of the first and the last event of a trace, in nanoseconds of boot time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The time of the first event: the zero of all relative times.
    pub start: u64,
    /// The time at which the last event ends.
    pub end: u64,
}

impl Bounds {
    /// Reads the bounds of a trace; `None` if it has no events.
    ///
    /// # Errors
    ///
    /// Fails if reading fails, or if the input is not a trace. Damage ends the trace.
    pub fn read(input: impl Read, limits: Limits) -> Result<Option<Self>, ReadError> {
        let mut reader = BoundsReader::new(limits);
        TraceReader::with_limits(input, limits).read_all(|packet| reader.add(packet.bytes))?;
        Ok(reader.bounds())
    }

    /// Returns the length of the trace in nanoseconds.
    pub fn length(self) -> u64 {
        self.end - self.start
    }

    /// Returns the time `after` the first event, in nanoseconds.
    pub fn at(self, after: u64) -> u64 {
        self.start.saturating_add(after)
    }
}

/// Finds the first and the last event of a trace, packet by packet.
#[derive(Debug)]
pub struct BoundsReader {
    walk: Walk,
    /// Finds the events that readers leave out.
    health: HealthCounter,
    times: EventTimes,
}

impl BoundsReader {
    /// Creates a reader.
    pub fn new(limits: Limits) -> Self {
        let budget = limits.budget();
        Self {
            walk: Walk::new(&budget),
            health: HealthCounter::new(&budget),
            times: EventTimes::new(&budget),
        }
    }

    /// Adds one encoded `TracePacket`.
    pub fn add(&mut self, packet: &[u8]) {
        let (health, times) = (&mut self.health, &mut self.times);
        self.walk.packet(packet, |header, content, state, clocks| {
            if health.packet(header, content, &state).is_some() {
                return;
            }
            match content.filter(|_| header.snapshot.is_none() && state.is_usable()) {
                Some((field::FTRACE_EVENTS, body)) => {
                    times.kernel_events(header.machine, body, clocks);
                }
                Some(content) => times.packet(header, content, &state, clocks),
                None => {}
            }
        });
    }

    /// Returns the bounds of the packets so far.
    pub fn bounds(&self) -> Option<Bounds> {
        self.times.bounds()
    }
}

/// Collects the times of events, with packets whose times were converted by the caller.
#[derive(Debug)]
pub(crate) struct EventTimes {
    budget: Budget,
    bounds: Option<Bounds>,
    /// The slices by machine and track.
    open: EventMap<(u32, EventTrack), Open>,
    machines: BTreeMap<u32, Machine>,
    clocks: MachineClocks,
    /// The time from which the running thread of a CPU is known, by machine and CPU.
    known: BTreeMap<(u32, u32), u64>,
}

/// A machine of the trace.
#[derive(Debug, Default)]
struct Machine {
    /// The start of the recording. Earlier kernel events are not shown.
    started: u64,
    /// True if the buffers of the kernel were preserved: then earlier events are shown.
    is_preserved: bool,
    /// True if the use of disks was measured.
    has_disks: bool,
}

/// The slices of a track, in the order of the file.
#[derive(Debug, Default)]
struct Open {
    /// The number of open slices, and the time of the first one.
    count: u32,
    first: u64,
    /// The number of ends without a beginning, which another sequence may have written, and the
    /// time of the last one.
    ends: u32,
    last_end: u64,
}

/// The memory of the slices of a track.
const TRACK_BYTES: usize = entry_bytes::<((u32, EventTrack), Open)>();

impl EventTimes {
    pub(crate) fn new(budget: &Budget) -> Self {
        Self {
            budget: budget.clone(),
            bounds: None,
            open: EventMap::default(),
            machines: BTreeMap::new(),
            clocks: MachineClocks::default(),
            known: BTreeMap::new(),
        }
    }

    /// Returns the bounds of the events so far. Like those of the tables, they are not empty.
    pub(crate) fn bounds(&self) -> Option<Bounds> {
        let bounds = self.bounds?;
        let end = bounds.end.max(bounds.start.saturating_add(1));
        Some(Bounds { end, ..bounds })
    }

    fn add(&mut self, machine: u32, first: u64, last: u64) {
        let host = |time: u64| match machine {
            0 => time,
            machine => self.clocks.to_host(machine, time),
        };
        let (first, last) = (host(first), host(last));
        let bounds = self.bounds.get_or_insert(Bounds {
            start: first,
            end: last,
        });
        bounds.start = bounds.start.min(first);
        bounds.end = bounds.end.max(last);
    }

    fn machine(&mut self, id: u32) -> Option<&mut Machine> {
        if self.machines.len() >= MAX_MACHINES && !self.machines.contains_key(&id) {
            return None;
        }
        Some(self.machines.entry(id).or_default())
    }

    /// Returns the time from which kernel events of a machine are shown.
    pub(crate) fn kernel_start(&self, machine: u32) -> u64 {
        let machine = self.machines.get(&machine);
        let machine = machine.filter(|machine| !machine.is_preserved);
        machine.map_or(0, |machine| machine.started)
    }

    /// Adds a packet other than kernel events.
    pub(crate) fn packet(
        &mut self,
        header: &PacketHeader<'_>,
        (kind, body): Content<'_>,
        state: &PacketState<'_>,
        clocks: &Clocks,
    ) {
        let machine = header.machine;
        let time = state.time.and_then(Result::ok);
        match kind {
            field::REMOTE_CLOCK_SYNC => self.clocks.compare(machine, body),
            field::SERVICE_EVENT => {
                let is_start = Fields::find(service::TRACING_STARTED, body).is_some();
                if let (true, Some(time), Some(machine)) = (is_start, time, self.machine(machine)) {
                    machine.started = time;
                }
            }
            field::FTRACE_STATS => {
                let preserved = Fields::find(ftrace_stats::PRESERVE_FTRACE_BUFFER, body);
                if preserved.and_then(|it| it.as_bool()) == Some(true)
                    && let Some(machine) = self.machine(machine)
                {
                    machine.is_preserved = true;
                }
            }
            field::TRACK_EVENT => {
                if let (Some(time), Some(event)) = (time, &state.event) {
                    self.track_event(machine, event, time);
                }
            }
            field::PROFILE_PACKET => {
                for time in heap_dumps(body) {
                    if let Ok(time) = clocks.to_boot(machine, time, MONOTONIC_COARSE) {
                        self.add(machine, time, time);
                    }
                }
            }
            _ => {
                let has_rates = kind == field::SYS_STATS && self.has_disk_rates(machine, body);
                if let Some(time) = time.filter(|_| has_rates || has_event(kind, body)) {
                    self.add(machine, time, time);
                }
            }
        }
    }

    /// Returns true if system statistics measure the use of disks again: the rates since the last
    /// measurement are events.
    fn has_disk_rates(&mut self, machine: u32, stats: &[u8]) -> bool {
        let has_disks = Fields::find(sys_stats::DISK_STAT, stats).is_some();
        let machine = self.machine(machine).filter(|_| has_disks);
        machine.is_some_and(|machine| std::mem::replace(&mut machine.has_disks, true))
    }

    fn track_event(&mut self, machine: u32, event: &SequenceEvent<'_>, time: u64) {
        let track = (machine, event.track);
        let encoded = &event.encoded;
        match encoded.kind() {
            Some(kind) if kind.begins_slice() => {
                self.add(machine, time, time);
                self.begin(track, time);
            }
            Some(kind) if kind.ends_slice() => {
                let ends_slice = self.end(track, time, event.is_on_own_track);
                if ends_slice || encoded.has_counters() {
                    self.add(machine, time, time);
                }
            }
            // A state without a name is the end of the one before.
            Some(EventKind::State) if encoded.name().is_none() => {}
            Some(kind) if kind.is_complete_slice() => {
                let duration = encoded.duration().unwrap_or(0);
                self.add(machine, time, time.saturating_add(duration));
            }
            Some(EventKind::Legacy('M')) if !encoded.has_counters() => {}
            None => {}
            Some(_) => self.add(machine, time, time),
        }
    }

    fn begin(&mut self, track: (u32, EventTrack), time: u64) {
        let Some(open) = self.slices(track) else {
            return;
        };
        if open.ends > 0 && time < open.last_end {
            // Its end was read first.
            open.ends -= 1;
            let end = open.last_end;
            self.add(track.0, end, end);
        } else {
            open.first = if open.count == 0 {
                time
            } else {
                open.first.min(time)
            };
            open.count = open.count.saturating_add(1);
        }
    }

    /// Ends a slice. Returns false if none is open.
    fn end(&mut self, track: (u32, EventTrack), time: u64, is_own: bool) -> bool {
        let Some(open) = self.slices(track) else {
            return false;
        };
        // An end before all open slices, which the file has later, ends none of them.
        if open.count == 0 || time < open.first {
            open.ends = open.ends.saturating_add(1);
            open.last_end = open.last_end.max(time);
            return false;
        }
        open.count -= 1;
        // The next slice of a thread follows: its track stays.
        if open.count == 0 && open.ends == 0 && !is_own {
            self.open.remove(&track);
            self.budget.give_back(TRACK_BYTES);
        }
        true
    }

    fn slices(&mut self, track: (u32, EventTrack)) -> Option<&mut Open> {
        match self.open.entry(track) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(new) if self.budget.take(TRACK_BYTES) => {
                Some(new.insert(Open::default()))
            }
            Entry::Vacant(_) => None,
        }
    }

    /// Reads a `FtraceEventBundle`.
    pub(crate) fn kernel_events(&mut self, machine: u32, bytes: &[u8], clocks: &Clocks) {
        let header = BundleHeader::read(bytes, machine, clocks);
        let Some(cpu) = header.cpu else { return };
        let of = (machine, cpu);
        let from = self.kernel_start(machine);
        // Compact events first: one that does not continue them is written whole.
        let parts = || Fields::new(bytes).map_while(Result::ok);
        for part in parts().filter(|part| part.number == bundle::COMPACT_SCHED) {
            let columns = CompactSched::read(part.as_bytes().unwrap_or_default());
            self.compact(of, &columns, &header);
        }
        for part in parts().filter(|part| part.number == bundle::EVENT) {
            let (mut time, mut kind) = (None, 0);
            for part in Fields::new(part.as_bytes().unwrap_or_default()).map_while(Result::ok) {
                match (part.number, part.value) {
                    (ftrace_event::TIMESTAMP, Value::Varint(value)) => time = Some(value),
                    (number, Value::Bytes(_)) => kind = number,
                    _ => {}
                }
            }
            if let Some(time) = time.filter(|_| kind != 0) {
                let time = header.to_boot(time);
                if kind == ftrace_event::SCHED_SWITCH && time >= from {
                    self.switch(of, time);
                }
                self.kernel(machine, time, time);
            }
        }
    }

    /// Adds kernel events between two times.
    pub(crate) fn kernel(&mut self, machine: u32, first: u64, last: u64) {
        if last >= self.kernel_start(machine) {
            self.add(machine, first, last);
        }
    }

    /// Records that a context switch shows which thread runs on a CPU.
    pub(crate) fn switch(&mut self, cpu: (u32, u32), time: u64) {
        if self.known.len() < MAX_CPUS || self.known.contains_key(&cpu) {
            self.known.entry(cpu).or_insert(time);
        }
    }

    /// Returns true if the running thread of a CPU is known.
    pub(crate) fn is_known(&self, cpu: (u32, u32)) -> bool {
        self.known.contains_key(&cpu)
    }

    /// Adds the events of a `CompactSched`. The compact encoding omits the running thread, so
    /// events before the first switch of a CPU, and this one, are not shown.
    pub(crate) fn compact(
        &mut self,
        cpu: (u32, u32),
        columns: &CompactSched<'_>,
        header: &BundleHeader,
    ) {
        let from = self.kernel_start(cpu.0);
        for kind in [CompactKind::Switches, CompactKind::Wakings] {
            let mut span: Option<(u64, u64)> = None;
            for row in columns.rows(kind) {
                let time = header.to_boot(row.time);
                if time < from {
                    continue;
                }
                let known = self.known.get(&cpu).copied();
                if known.is_none() && kind == CompactKind::Switches {
                    self.switch(cpu, time);
                }
                if known.is_some_and(|known| time >= known) {
                    let (first, last) = span.unwrap_or((time, time));
                    span = Some((first.min(time), last.max(time)));
                }
            }
            if let Some((first, last)) = span {
                self.add(cpu.0, first, last);
            }
        }
    }
}

/// Returns the times of the heap dumps in a `ProfilePacket` that have samples, on the coarse
/// monotonic clock.
fn heap_dumps(bytes: &[u8]) -> impl Iterator<Item = u64> {
    use profile_packet::process_heap_samples as dump;
    let dumps = Fields::new(bytes).map_while(Result::ok);
    dumps.filter_map(|part| {
        let dump = part
            .as_bytes()
            .filter(|_| part.number == profile_packet::PROCESS_DUMPS)?;
        Fields::find(dump::SAMPLES, dump)?;
        Fields::find(dump::TIMESTAMP, dump)?.as_u64()
    })
}

/// Returns true if a packet of this kind is an event at its own time.
fn has_event(kind: u32, body: &[u8]) -> bool {
    let has = |number: &u32| Fields::find(*number, body).is_some();
    match kind {
        field::PERF_SAMPLE => matches!(PerfSample::read(body), PerfSample::Sample(_)),
        field::SYS_STATS => {
            let mut parts = Fields::new(body).map_while(Result::ok);
            // Rates of disks begin with the second measurement.
            let none = [sys_stats::DISK_STAT, sys_stats::COLLECTION_END_TIMESTAMP];
            parts.any(|part| !none.contains(&part.number))
        }
        field::PROCESS_STATS => {
            let processes = Fields::new(body).map_while(Result::ok);
            let mut processes = processes.filter(|part| part.number == process_stats::PROCESSES);
            processes.any(|process| has_counter(process.as_bytes().unwrap_or_default()))
        }
        field::JOURNALD_EVENT => ![journal::NUM_FAILED, journal::NUM_TOTAL].iter().any(has),
        field::STACK_SAMPLE
        | field::SMAPS_PACKET
        | field::GPU_COUNTER_EVENT
        | field::GPU_RENDER_STAGE_EVENT
        | field::GPU_LOG
        | field::VULKAN_API_EVENT
        | field::GENERIC_KERNEL_TASK_STATE_EVENT
        | field::GENERIC_KERNEL_CPU_FREQ_EVENT
        | field::GENERIC_GPU_FREQUENCY_EVENT
        | field::GPU_MEM_TOTAL_EVENT
        | field::BATTERY
        | field::POWER_RAILS
        | field::ANDROID_ENERGY_ESTIMATION_BREAKDOWN
        | field::ENTITY_STATE_RESIDENCY
        | field::INITIAL_DISPLAY_STATE
        | field::CONCURRENT_SESSION_EVENT
        | field::TRIGGER
        | field::CLONE_SNAPSHOT_TRIGGER
        | field::CHROME_TRIGGER => true,
        _ => false,
    }
}

/// Returns true if a `ProcessStats.Process` has a counter.
fn has_counter(process: &[u8]) -> bool {
    use process_stats::process as part;
    let mut parts = Fields::new(process).map_while(Result::ok);
    parts.any(|field| {
        !matches!(
            field.number,
            part::PID
                | part::THREADS
                | part::FDS
                | part::IS_PEAK_RSS_RESETTABLE
                | part::CHROME_PRIVATE_FOOTPRINT_KB
                | part::CHROME_PEAK_RESIDENT_SET_KB
        )
    })
}
