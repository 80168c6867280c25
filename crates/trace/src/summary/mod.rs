//! The contents of a trace: events by source, CPU time by process, counters, and losses.
//!
//! A summary takes one pass over the packets. Its memory grows with the number of threads, CPUs and
//! writers in the trace, which are all limited, and not with the length of the trace.

mod activity;
mod cgroups;
mod command;
mod config;
mod counters;
mod described;
mod disks;
mod ending;
mod finish;
mod frequency;
mod ftrace;
mod heap;
mod loss;
mod machines;
mod memory;
mod names;
mod pairing;
mod part;
mod profile;
mod remarks;
mod resources;
mod sched;
mod stats;
mod thread_names;
mod track_events;
mod wanted;
mod writers;

use std::collections::BTreeMap;
use std::io::Read;

use ferretto_format::health::Health;
use ferretto_format::kernel_bundle::BundleHeader;
use ferretto_format::sequence::{FaultSink, PacketHeader, SequenceReader, SequenceState};
use ferretto_proto::fields::trace_packet as packet_field;
use ferretto_proto::views::FtraceEventBundleView;
use ferretto_wire::{Field, Fields};

pub use self::activity::{ActivityKind, ActivitySummary};
pub use self::cgroups::CgroupSummary;
pub use self::command::{
    COMMAND_ATTRIBUTE, COMMAND_PID_ATTRIBUTE, CommandSummary, PIDS_ATTRIBUTE, SliceSummary,
};
pub use self::config::RING_SESSION;
pub use self::counters::CounterSummary;
pub use self::frequency::FrequencySummary;
pub use self::heap::{HeapSite, HeapSummary};
pub use self::loss::{Cause, Loss};
pub use self::machines::{MachineClockSummary, MachineSummary};
pub use self::memory::{Level, MemorySummary, ProcessMemory};
pub use self::part::{PART_FROM_ATTRIBUTE, PART_TO_ATTRIBUTE};
pub use self::profile::ProfileSummary;
pub use self::resources::CommandResources;
pub use self::sched::CpuSummary;
pub use self::track_events::TrackEventCounts;
pub use crate::threads::ProcessSummary;

pub(crate) use self::thread_names::ThreadNames;

use self::cgroups::Cgroups;
use self::command::{Command, SliceState};
use self::config::Config;
use self::counters::Counters;
use self::ending::Ending;
use self::frequency::Frequencies;
use self::ftrace::{Around, Ftrace};
use self::machines::Machines;
use self::memory::Memory;
use self::part::Part;
use self::remarks::Remarks;
use self::sched::Sched;
use self::stats::Stats;
use self::track_events::TrackEvents;
use self::wanted::Wanted;
use self::writers::Writer;
use crate::bounds::EventTimes;
use crate::health::HealthCounter;
use crate::limits::{Budget, Limits};
use crate::profile::{Decoder, Module, SampleContent, SampleState, Selection, StackCounts};
use crate::reader::{Compression, Damage, ReadError, TraceReader};
use crate::threads::Threads;
use crate::walk::PacketState;

/// The maximum number of packet kinds, so that memory is bounded for any input.
const MAX_KINDS: usize = 1 << 12;

/// The summary of one data source's packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceSummary {
    /// The name of the data source, or of the packet kind if the data source is unknown.
    pub name: String,
    /// The number of kernel events for `linux.ftrace`, otherwise of packets.
    pub events: u64,
    /// The encoded size of its packets, in bytes.
    pub bytes: u64,
    /// The kinds of events with their counts, the most frequent first.
    pub kinds: Vec<(String, u64)>,
}

/// The contents of a trace.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// The size of the trace, in bytes.
    pub bytes: u64,
    /// The compression of the file, and its size in bytes, if it is compressed.
    pub compressed: Option<(Compression, u64)>,
    /// The part of the file that could not be read.
    pub damage: Damage,
    /// The number of entries left out because of the memory limit.
    pub left_out: u64,
    /// The number of packets, including those inside of compressed ones.
    pub packets: u64,
    /// The time from the first event to the last one, in nanoseconds; without events, the duration
    /// of the recording.
    pub duration_ns: Option<u64>,
    /// The recorded command, if there is one.
    pub command: Option<CommandSummary>,
    /// The summaries by data source, with the service's own packets last.
    pub sources: Vec<SourceSummary>,
    /// The summaries by CPU, for traces with context switches.
    pub cpus: Vec<CpuSummary>,
    /// The processes in descending order of CPU time.
    pub processes: Vec<ProcessSummary>,
    /// The CPU frequencies, if recorded.
    pub frequencies: Vec<FrequencySummary>,
    /// The memory of the machine and its processes.
    pub memory: MemorySummary,
    /// The containers, units and other control groups, in descending order of CPU time.
    pub cgroups: Vec<CgroupSummary>,
    /// System calls, interrupts, disk requests and other work of the kernel, by kind, in descending
    /// order of total duration.
    pub activity: Vec<ActivitySummary>,
    /// The processes of `record -p`.
    pub pids: Vec<i32>,
    /// The system calls of the recorded command, or of `pids`, and of their descendants.
    pub own_system_calls: Vec<ActivitySummary>,
    /// The callstack samples: on-CPU samples, then off-CPU samples.
    pub profiles: Vec<ProfileSummary>,
    /// The heaps of processes, in descending order of memory that is not freed.
    pub heaps: Vec<HeapSummary>,
    /// The number of threads that have a name or ran.
    pub threads: usize,
    /// The counters with at least one sample.
    pub counters: Vec<CounterSummary>,
    /// The machines other than that of the service.
    pub machines: Vec<MachineSummary>,
    /// The counts of track events.
    pub track_events: TrackEventCounts,
    /// The data of the file that readers cannot show.
    pub health: Health,
    /// The losses.
    pub losses: Vec<Loss>,
    /// The reasons for possible unreported losses, one sentence each. If empty, `losses` is
    /// complete.
    pub unknown: Vec<String>,
    /// Other notes, one sentence each.
    pub notes: Vec<String>,
}

impl Summary {
    /// Returns true if the trace shows that `losses` is complete.
    pub fn losses_known(&self) -> bool {
        self.unknown.is_empty()
    }

    /// Returns true if the trace shows that no data was lost, and readers can show all of it.
    pub fn is_complete(&self) -> bool {
        self.losses.is_empty() && self.losses_known() && self.health.is_empty()
    }
}

/// Summarizes a trace. Damage becomes a note, and the packets before it count.
///
/// # Errors
///
/// Fails if reading fails, or if the input is not a trace.
pub fn summarize(input: impl Read) -> Result<Summary, ReadError> {
    summarize_and_complete(input, |_| Vec::new())
}

/// Summarizes a trace without symbols. At the end of an undamaged trace, `complete` is called with
/// the files and addresses of samples without symbols, and returns packets to append, as encoded
/// `Trace.packet` fields.
///
/// # Errors
///
/// Fails if reading fails, or if the input is not a trace.
pub fn summarize_and_complete(
    input: impl Read,
    complete: impl FnOnce(&[Module]) -> Vec<u8>,
) -> Result<Summary, ReadError> {
    summarize_within(input, Limits::default(), complete)
}

/// The same within other limits.
///
/// # Errors
///
/// Fails if reading fails, or if the input is not a trace.
pub fn summarize_within(
    input: impl Read,
    limits: Limits,
    complete: impl FnOnce(&[Module]) -> Vec<u8>,
) -> Result<Summary, ReadError> {
    let mut reader = TraceReader::with_limits(input, limits);
    let mut summarizer = Summarizer::with_limits(limits);
    let damage = reader.read_all(|packet| summarizer.add(packet.bytes))?;
    let modules = summarizer.samples.modules();
    let rest = if damage.end().is_none() {
        complete(&modules)
    } else {
        Vec::new()
    };
    for packet in Fields::new(&rest).map_while(Result::ok) {
        summarizer.add(packet.as_bytes().unwrap_or_default());
    }
    let mut summary = summarizer.finish();
    summary.bytes = reader.bytes_read() + rest.len() as u64;
    summary.compressed = reader.compression();
    if !damage.is_none() {
        let sentence = "a part of the file could not be read, so its losses are unknown";
        summary.unknown.push(sentence.to_owned());
    }
    if summary.left_out > 0 {
        let sentence = "a part of the trace was left out because of the memory limit";
        summary.unknown.push(sentence.to_owned());
    }
    summary.notes.extend(damage.sentences());
    summary.damage = damage;
    Ok(summary)
}

/// The maximum number of machines whose recordings are summarized.
const MAX_RECORDINGS: usize = 256;

/// Collects a [`Summary`] packet by packet.
#[derive(Debug)]
pub struct Summarizer {
    budget: Budget,
    packets: u64,
    bytes: u64,
    malformed: u64,
    kinds: BTreeMap<u32, (u64, u64)>,
    sched: Sched,
    threads: Threads,
    machines: Machines,
    ftrace: Ftrace,
    counters: Counters,
    frequencies: Frequencies,
    memory: Memory,
    cgroups: Cgroups,
    track_events: TrackEvents,
    remarks: Remarks,
    sequences: SequenceReader<SequenceSummary>,
    /// The writer of all packets without a sequence id.
    unnumbered: Writer,
    samples: Decoder,
    stacks: StackCounts,
    config: Option<Config>,
    wanted: Wanted,
    is_profiler_root: bool,
    stats: Option<Stats>,
    ending: Ending,
    /// The recordings of other machines, in a trace merged from several.
    others: BTreeMap<u32, Recording>,
    command: Command,
    health: HealthCounter,
    part: Part,
    times: EventTimes,
}

/// A service's packets about a recording as a whole.
#[derive(Debug, Default)]
struct Recording {
    config: Config,
    stats: Option<Stats>,
    ending: Ending,
}

/// The incremental state of one sequence, and data about its writer.
#[derive(Debug)]
struct SequenceSummary {
    writer: Writer,
    samples: SampleState,
    slices: SliceState,
}

impl SequenceState for SequenceSummary {
    fn new(budget: &Budget) -> Self {
        Self {
            writer: Writer::default(),
            samples: SampleState::new(budget),
            slices: SliceState::new(budget),
        }
    }

    fn restart(&mut self) {
        self.samples.restart();
        self.slices.restart();
    }

    fn lose(&mut self) {
        self.slices.lose();
    }

    fn set_defaults(&mut self, defaults: &[u8]) {
        self.samples.set_defaults(defaults);
        self.slices.set_defaults(defaults);
    }

    fn intern(&mut self, interned: &[u8], faults: FaultSink<'_>) {
        self.samples.intern(interned, faults);
        // Faults of interned data are reported by `samples`.
        self.slices.intern(interned, &mut |_| {});
    }
}

/// The data of a packet.
#[derive(Default)]
struct Content<'a> {
    data: Option<(u32, &'a [u8])>,
    samples: SampleContent<'a>,
}

impl<'a> Content<'a> {
    #[inline]
    fn take(&mut self, field: &Field<'a>) {
        self.data = Some((field.number, field.as_bytes().unwrap_or_default()));
        self.samples.take(field);
    }
}

impl Default for Summarizer {
    fn default() -> Self {
        Self::new()
    }
}

impl Summarizer {
    /// Creates an empty summary.
    pub fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    /// Creates an empty summary with other limits.
    pub fn with_limits(limits: Limits) -> Self {
        let budget = limits.budget();
        Self {
            packets: 0,
            bytes: 0,
            malformed: 0,
            kinds: BTreeMap::new(),
            sched: Sched::default(),
            threads: Threads::new(&budget),
            ftrace: Ftrace::with_activity(&budget),
            machines: Machines::default(),
            counters: Counters::default(),
            frequencies: Frequencies::default(),
            memory: Memory::default(),
            cgroups: Cgroups::default(),
            track_events: TrackEvents::default(),
            remarks: Remarks::default(),
            sequences: SequenceReader::new(&budget),
            unnumbered: Writer::default(),
            samples: Decoder::new(&budget),
            stacks: StackCounts::within(Selection::default(), &budget),
            config: None,
            wanted: Wanted::default(),
            is_profiler_root: false,
            stats: None,
            ending: Ending::default(),
            others: BTreeMap::new(),
            command: Command::new(&budget),
            health: HealthCounter::new(&budget),
            part: Part::default(),
            times: EventTimes::new(&budget),
            budget,
        }
    }

    /// Adds one encoded `TracePacket`.
    pub fn add(&mut self, packet: &[u8]) {
        self.packets += 1;
        self.bytes = self.bytes.saturating_add(packet.len() as u64);
        let mut content = Content::default();
        let (header, is_whole) = PacketHeader::read_prefix(packet, |field| content.take(&field));
        if let Some(snapshot) = header.snapshot {
            content.data = Some((packet_field::CLOCK_SNAPSHOT, snapshot));
        }
        let time = if is_whole {
            self.sequence_packet(&header, &content)
        } else {
            self.malformed += 1;
            None
        };
        self.machines.note(&header);
        let source = content.data.and_then(|(kind, _)| names::source_of(kind));
        if header.sequence == 0 {
            self.unnumbered.note(&header, source);
        } else if let Some(state) = self.sequences.state_mut(header.sequence) {
            state.writer.note(&header, source);
        }
        if let Some((kind, body)) = content.data {
            if self.kinds.len() < MAX_KINDS || self.kinds.contains_key(&kind) {
                let count = self.kinds.entry(kind).or_default();
                count.0 += 1;
                count.1 = count.1.saturating_add(packet.len() as u64);
            }
            if matches!(kind, packet_field::PERF_SAMPLE | packet_field::STACK_SAMPLE) {
                self.is_profiler_root |= header.uid == Some(0);
            }
            self.data(&header, kind, body, time);
        }
    }

    /// Reads a packet with the state of its sequence, and updates the state. Returns its boot time.
    fn sequence_packet(&mut self, header: &PacketHeader<'_>, content: &Content<'_>) -> Option<u64> {
        let samples = &mut self.samples;
        let mut context = self
            .sequences
            .read(header, &mut |fault| samples.note(fault));
        let mut state = match &mut context {
            Ok(Some(context)) => {
                let of_event = context.reborrow();
                let of_event = of_event.of_part(|state| &mut state.slices.event);
                let state = PacketState::read(header, content.data, of_event);
                if let Some(event) = &state.event {
                    let time = state.time.and_then(Result::ok);
                    let pid = header.pid.unwrap_or(0);
                    self.command.event(pid, time, event, &context.state.slices);
                }
                state
            }
            Ok(None) => PacketState::default(),
            Err(fault) => PacketState {
                fault: Some(*fault),
                ..PacketState::default()
            },
        };
        let context = context
            .map(|context| context.map(|context| context.of_part(|state| &mut state.samples)));
        if let Some(sample) = self.samples.add(header, &content.samples, context) {
            self.stacks.add(&sample);
        }
        if let Some(fault) = state.fault {
            state = PacketState::faulty(fault, header, &self.sequences);
        }
        let is_left_out = self.health.packet(header, content.data, &state).is_some();
        let is_shown = state.is_usable() && !is_left_out;
        if let Some(data) = content.data.filter(|_| is_shown) {
            let clocks = self.sequences.clocks();
            self.times.packet(header, data, &state, clocks);
        }
        // Events whose time no reader can tell are counted with the losses.
        if let Some(event) = &state.event
            && !is_left_out
            && !matches!(state.time, Some(Err(_)))
        {
            self.track_events.event(&event.encoded);
            self.remarks.event(&event.encoded);
        }
        state.time.and_then(Result::ok)
    }

    fn data(&mut self, header: &PacketHeader<'_>, kind: u32, body: &[u8], at: Option<u64>) {
        let machine = header.machine;
        match kind {
            packet_field::FTRACE_EVENTS => {
                let bundle = FtraceEventBundleView::read(body);
                let mut around = Around {
                    sched: &mut self.sched,
                    threads: &mut self.threads,
                    times: &mut self.times,
                    header: BundleHeader::of(&bundle, machine, self.sequences.clocks()),
                };
                self.ftrace
                    .bundle(machine, header.sequence, &bundle, &mut around);
            }
            packet_field::FTRACE_STATS => self.ftrace.stats(machine, body),
            packet_field::PROCESS_TREE => {
                self.threads.process_tree(machine, body);
                self.cgroups.process_tree(machine, body);
            }
            packet_field::PROCESS_STATS => {
                self.counters.process_stats(body);
                self.memory.process_stats(machine, body);
            }
            packet_field::SYS_STATS => {
                self.counters.sys_stats(body);
                self.sched.sys_stats(machine, body);
                self.cgroups.sys_stats(machine, body);
                if machine == 0 {
                    self.memory.sys_stats(body);
                    self.frequencies.sys_stats(body);
                }
            }
            packet_field::TRACK_DESCRIPTOR => {
                self.track_events
                    .descriptor(machine, body, &mut self.threads);
            }
            packet_field::TRACE_CONFIG
            | packet_field::TRACE_STATS
            | packet_field::SERVICE_EVENT
                if machine != 0 =>
            {
                self.other(machine, kind, body, at);
            }
            packet_field::TRACE_CONFIG => {
                let config = Config::read(body);
                self.ending.limit_file(config.max_file_bytes);
                self.config = Some(config);
                self.wanted.config(body);
                self.attributes(machine, config::attributes(body));
            }
            packet_field::TRACE_ATTRIBUTES => {
                self.attributes(machine, body);
                self.part.attributes(body);
            }
            packet_field::TRIGGER => self.wanted.trigger(body),
            packet_field::TRACE_STATS => {
                let stats = Stats::read(body);
                self.ending.statistics(stats.has_final_flush());
                self.stats = Some(stats);
            }
            packet_field::SYSTEM_INFO => {
                self.machines.describe(machine, body);
                if let Some(activity) = &mut self.ftrace.activity {
                    activity.describe(machine, body);
                }
            }
            packet_field::REMOTE_CLOCK_SYNC => self.machines.compare(machine, body),
            packet_field::SERVICE_EVENT => self.ending.event(body, at),
            _ => {}
        }
    }

    /// Reads a `TraceAttributes`.
    fn attributes(&mut self, machine: u32, bytes: &[u8]) {
        self.command.attributes(bytes);
        if let Some(activity) = &mut self.ftrace.activity {
            activity.attributes(machine, bytes);
        }
    }

    /// Reads a packet of the service of another machine about its recording.
    fn other(&mut self, machine: u32, kind: u32, body: &[u8], at: Option<u64>) {
        if self.others.len() >= MAX_RECORDINGS && !self.others.contains_key(&machine) {
            return;
        }
        let recording = self.others.entry(machine).or_default();
        match kind {
            packet_field::TRACE_CONFIG => {
                recording.config = Config::read(body);
                recording.ending.limit_file(recording.config.max_file_bytes);
                self.wanted.config(body);
                self.attributes(machine, config::attributes(body));
            }
            packet_field::TRACE_STATS => {
                let stats = Stats::read(body);
                recording.ending.statistics(stats.has_final_flush());
                recording.stats = Some(stats);
            }
            _ => recording.ending.event(body, at),
        }
    }
}
