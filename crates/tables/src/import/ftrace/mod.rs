//! Kernel events: bundles of `linux.ftrace`.

mod args;
mod binder;
mod buffers;
mod compact;
mod counters;
mod devices;
mod disks;
mod drm;
mod functions;
mod generic;
mod hypervisor;
mod print;
mod slices;
mod stats;
mod syscalls;
mod tasks;
mod tcp;
mod ufs;

use ferretto_format::clock::{BOOTTIME, MONOTONIC_RAW};
use ferretto_format::compact_sched::CompactKind;
use ferretto_proto::fields::{ftrace_event as event, ftrace_event_bundle as bundle};
use ferretto_wire::{Field, Fields, Value};

use self::args::EventArgs;
pub(crate) use self::binder::Binder;
use self::compact::Compact;
use self::counters::Counters;
pub(crate) use self::counters::add_named;
use self::devices::Devices;
use self::disks::Disks;
use self::drm::Drm;
use self::generic::Generic;
pub(crate) use self::print::Print;
pub(crate) use self::print::device_state;
use self::slices::Slices;
use self::syscalls::Syscalls;
use super::arena::Span;
use super::context::{Context, EventState};
use super::event::Event;
use super::message::Message;
use super::sorter::Stream;
use super::{Input, Out};
use crate::options::Options;
use crate::schema::{FtraceEventRow, TableId};
use crate::stats::Stat;
use crate::store::Lost;
use crate::strings::StringId;
use crate::trackers::clock::{ClockId, Reading, add_snapshot};
use crate::trackers::kernel::Kernel;
use crate::trackers::machine::CpuTracker;
use crate::trackers::metadata::{Fact, FactScope};

/// The clocks of ftrace, by their values in `FtraceClock`.
const FTRACE_CLOCK_UNSPECIFIED: u64 = 0;
const FTRACE_CLOCK_GLOBAL: u64 = 2;
const FTRACE_CLOCK_LOCAL: u64 = 3;
const FTRACE_CLOCK_MONO_RAW: u64 = 4;

/// The maximum number of CPUs of a machine. Bundles of other CPUs are malformed.
const MAX_CPUS: u32 = 1024;

/// The state of kernel events between packets.
#[derive(Debug, Default)]
pub(crate) struct Ftrace {
    /// By row of `machine`.
    machines: Vec<Machine>,
    args: EventArgs,
    generic: Generic,
    compact: Compact,
    print: Print,
    slices: Slices,
    binder: Binder,
    counters: Counters,
    drm: Drm,
    devices: Devices,
    disks: Disks,
    syscalls: Syscalls,
    sequences_with_errors: Vec<u32>,
}

/// The state of ftrace on a machine.
#[derive(Debug, Default)]
struct Machine {
    /// The CPUs with a bundle.
    seen: Vec<bool>,
    /// The time of the last pair of the ftrace clock and the trace clock.
    last_pair: Option<i64>,
    /// Set if events from before the recording are preserved.
    preserves: bool,
    cut: Option<Cut>,
    kernel: Kernel,
}

/// The times from which events of a machine are used.
#[derive(Debug, Clone, Copy)]
struct Cut {
    /// Events before this time are dropped.
    drop: i64,
    /// Events before this time are only added to `ftrace_event`.
    raw_only: i64,
}

/// The common fields of an event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head<'a> {
    pub(crate) ts: i64,
    pub(crate) cpu: u32,
    /// The thread on the CPU.
    pub(crate) tid: i64,
    /// The flags of the kernel, if the recorder wrote them.
    pub(crate) flags: Option<u64>,
    pub(crate) state: EventState<'a>,
}

impl Head<'_> {
    /// Returns the name of a kernel function by its iid, or its address.
    fn symbol(&self, cx: &mut Context, iid: u64) -> StringId {
        match self.known_symbol(cx, iid) {
            Some(name) => name,
            None => cx.store.strings.intern(&format!("{iid:#x}")),
        }
    }

    /// Returns the name of a kernel function by its iid. A missing name is counted.
    fn known_symbol(&self, cx: &mut Context, iid: u64) -> Option<StringId> {
        let table = ferretto_proto::fields::interned_data::KERNEL_SYMBOLS;
        let name = self.state.text(table, iid);
        if name.is_none() {
            let stat = Stat::interned_data_tokenizer_errors;
            cx.store.stats.add(stat, 1);
        }
        name
    }
}

/// Returns the start time of the data of a bundle, if it is known.
fn begin(cx: &mut Context, head: &Message<'_, 12>, clock: ClockId) -> Option<i64> {
    let fields = [
        bundle::PREVIOUS_BUNDLE_END_TIMESTAMP,
        bundle::LAST_READ_EVENT_TIMESTAMP,
    ];
    let field = fields.into_iter().find(|field| head.has(*field))?;
    cx.clocks.trace_time(clock, head.int(field)).ok()
}

impl Ftrace {
    /// Tokenizes a `FtraceEventBundle`.
    pub(crate) fn tokenize(&mut self, cx: &mut Context, input: &Input<'_>, out: &mut Out<'_>) {
        let head = Message::<12>::walk(input.bytes);
        let cpu = head.u32(bundle::CPU);
        if !head.has(bundle::CPU) || cpu >= MAX_CPUS {
            let stat = Stat::ftrace_bundle_tokenizer_errors;
            cx.store.stats.add(stat, 1);
            return;
        }
        if head.uint(bundle::LOST_EVENTS) != 0 {
            let stat = Stat::ftrace_cpu_has_data_loss;
            cx.store.stats.set_indexed(stat, cpu.into(), 1);
        }
        let Some(clock) = self.clock(cx, input, &head) else {
            cx.store.stats.add(Stat::ftrace_bundle_tokenizer_errors, 1);
            return;
        };
        if head.uint(bundle::LOST_EVENTS) != 0 {
            let ucpu = cx.cpus.intern(&mut cx.store, cpu);
            let ts = begin(cx, &head, clock).unwrap_or(input.ts);
            cx.store.lost(ts, Lost::KernelEvents { ucpu });
        }
        if head.has(bundle::COMPACT_SCHED) {
            let columns = head.bytes(bundle::COMPACT_SCHED);
            let span = input.span(columns);
            self.compact.tokenize(cx, (cpu, clock), columns, span, out);
        }
        Fields::walk(input.bytes, |field| match (field.number, field.value) {
            (bundle::EVENT, Value::Bytes(bytes)) => {
                let kind = tokenize_event(cx, input, cpu, clock, bytes, out);
                self.disks.announce(kind);
            }
            (bundle::GENERIC_EVENT_DESCRIPTORS, Value::Bytes(bytes)) => {
                self.generic.describe(cx, bytes);
            }
            _ => {}
        });
        self.begin(cx, &head, cpu, clock);
    }

    /// Records the start of the data of a CPU.
    fn begin(&mut self, cx: &mut Context, head: &Message<'_, 12>, cpu: u32, clock: ClockId) {
        let machine = machine(&mut self.machines, cx.store.machine);
        let index = cpu as usize;
        if machine.seen.len() <= index {
            machine.seen.resize(index + 1, false);
        }
        if std::mem::replace(&mut machine.seen[index], true) {
            return;
        }
        let Some(ts) = begin(cx, head, clock) else {
            return;
        };
        let name = "ftrace_latest_data_start_ns";
        if fact(cx, name).is_none_or(|known| ts > known) {
            let scope = FactScope::MachineAndTrace;
            cx.metadata.set(&mut cx.store, name, Fact::Int(ts), scope);
        }
    }

    /// Returns the clock of the events of a bundle; `None` if it is unknown.
    fn clock(
        &mut self,
        cx: &mut Context,
        input: &Input<'_>,
        head: &Message<'_, 12>,
    ) -> Option<ClockId> {
        let of_machine = |id| ClockId::of_machine(cx.store.machine, id);
        let boot = of_machine(BOOTTIME);
        if !head.has(bundle::FTRACE_CLOCK) {
            return Some(boot);
        }
        let clock = match head.uint(bundle::FTRACE_CLOCK) {
            FTRACE_CLOCK_UNSPECIFIED => boot,
            FTRACE_CLOCK_MONO_RAW => of_machine(MONOTONIC_RAW),
            FTRACE_CLOCK_GLOBAL | FTRACE_CLOCK_LOCAL => ClockId {
                id: 64,
                sequence: input.header.sequence,
                file: cx.store.trace_file,
                machine: cx.store.machine,
            },
            _ => return None,
        };
        let machine = machine(&mut self.machines, cx.store.machine);
        if head.has(bundle::FTRACE_TIMESTAMP) && head.has(bundle::BOOT_TIMESTAMP) && clock != boot {
            let value = head.int(bundle::FTRACE_TIMESTAMP);
            if machine.last_pair != Some(value) {
                machine.last_pair = Some(value);
                let readings = [
                    Reading::new(clock, value),
                    Reading::new(boot, head.int(bundle::BOOT_TIMESTAMP)),
                ];
                add_snapshot(&mut cx.clocks, &mut cx.store, &readings);
            }
        }
        Some(clock)
    }

    /// Calls `each` with all switches or wake-ups of a `CompactSched`, and their times.
    pub(crate) fn expand(
        &mut self,
        cx: &mut Context,
        cpu: u16,
        kind: CompactKind,
        bytes: (&[u8], Span),
        each: impl FnMut(i64, Event),
    ) {
        self.compact.expand(cx, cpu, kind, bytes, each);
    }

    /// Parses an event.
    pub(crate) fn parse(
        &mut self,
        cx: &mut Context,
        ts: i64,
        event: &Event,
        bytes: &[u8],
        state: EventState<'_>,
    ) {
        let cut = self.cut(cx);
        if ts < cut.drop {
            let stat = Stat::ftrace_packet_before_tracing_start;
            cx.store.stats.add(stat, 1);
            return;
        }
        let is_raw_only = ts < cut.raw_only;
        match *event {
            Event::Ftrace { cpu, .. } => {
                self.event(cx, ts, cpu.into(), bytes, state, is_raw_only);
            }
            Event::Switch(switch) => self.compact_switch(cx, ts, switch, is_raw_only),
            Event::Waking(waking) => self.compact_waking(cx, ts, waking, is_raw_only),
            _ => {}
        }
    }

    /// Computes the times from which events of the machine are used.
    #[inline]
    fn cut(&mut self, cx: &mut Context) -> Cut {
        let machine = machine(&mut self.machines, cx.store.machine);
        match machine.cut {
            Some(cut) => cut,
            None => machine.begin(cx),
        }
    }

    fn event(
        &mut self,
        cx: &mut Context,
        ts: i64,
        cpu: u32,
        bytes: &[u8],
        state: EventState<'_>,
        is_raw_only: bool,
    ) {
        let mut head = Head {
            ts,
            cpu,
            tid: 0,
            flags: None,
            state,
        };
        let mut has_tid = false;
        Fields::walk_while(bytes, |Field { number, value }| {
            match (number, value) {
                (event::COMMON_FLAGS, Value::Varint(flags)) => head.flags = Some(flags),
                (event::TIMESTAMP | event::COMMON_FLAGS, _) => {}
                (event::PID, Value::Varint(tid)) => {
                    (head.tid, has_tid) = ((tid as u32).into(), true);
                }
                (number, Value::Bytes(body)) => {
                    if !has_tid {
                        // The pid may follow.
                        let Some(tid) = Fields::find(event::PID, bytes) else {
                            // The hypervisor has no threads.
                            if !is_raw_only {
                                hypervisor::parse(cx, &head, number, body);
                            }
                            return false;
                        };
                        let tid = tid.as_u64().unwrap_or(0) as u32;
                        (head.tid, has_tid) = (tid.into(), true);
                    }
                    self.raw(cx, &head, number, body);
                    if !is_raw_only {
                        if number != event::SCHED_SWITCH
                            && let Some(ucpu) = CpuTracker::row(&cx.store, cpu)
                        {
                            cx.sched.event_of(ts, ucpu, head.tid);
                        }
                        self.meaning(cx, &head, number, body);
                    }
                }
                _ => {}
            }
            true
        });
    }

    /// Adds an event to `ftrace_event`.
    fn raw(&mut self, cx: &mut Context, head: &Head<'_>, number: u32, body: &[u8]) {
        if !cx.store.wants(TableId::ftrace_event) || number == event::SCHED_SWITCH {
            // The rows of switches are added together with their threads.
            return;
        }
        let name = match number {
            event::GENERIC => self.generic.legacy(cx, body, self.args.scratch()),
            number if Generic::is_generic(number) => {
                self.generic.args(cx, number, body, self.args.scratch())
            }
            number => self.args.read(cx, head, number, body),
        };
        if let Some(name) = name {
            self.push_raw(cx, head, name, 0);
        }
    }

    /// Adds a row with the collected arguments.
    fn push_raw(&mut self, cx: &mut Context, head: &Head<'_>, name: StringId, flags: u32) {
        let utid = cx.processes.thread(&mut cx.store, head.tid);
        self.push_raw_of(cx, (head.ts, head.cpu), utid, name, flags);
    }

    /// Adds a row of a thread with the collected arguments.
    fn push_raw_of(
        &mut self,
        cx: &mut Context,
        (ts, cpu): (i64, u32),
        utid: u32,
        name: StringId,
        common_flags: u32,
    ) {
        let Some(ucpu) = cx.cpus.intern(&mut cx.store, cpu) else {
            return;
        };
        let arg_set_id = self.args.scratch().finish(&mut cx.store);
        cx.store.tables.ftrace_event.rows.push(FtraceEventRow {
            ts,
            name,
            utid,
            arg_set_id,
            common_flags,
            ucpu,
        });
    }

    /// Applies the meaning of an event.
    #[inline]
    fn meaning(&mut self, cx: &mut Context, head: &Head<'_>, number: u32, body: &[u8]) {
        match number {
            event::SCHED_SWITCH => self.switch(cx, head, body),
            event::SCHED_WAKING => tasks::waking(cx, head, body),
            event::SCHED_BLOCKED_REASON => tasks::blocked_reason(cx, head, body),
            event::SCHED_PROCESS_EXIT => tasks::process_exit(cx, head, body),
            event::SCHED_PROCESS_FREE => tasks::process_free(cx, head, body),
            event::TASK_NEWTASK => tasks::new_task(cx, head, body),
            event::TASK_RENAME => tasks::rename(cx, body),
            event::PRINT => {
                if let Some(utid) = cx.processes.find_thread(&cx.store, head.tid) {
                    self.syscalls.cut_write(cx, head.ts, utid);
                }
                self.print.parse(cx, head, body);
            }
            event::TRACING_MARK_WRITE
            | event::SDE_TRACING_MARK_WRITE
            | event::DPU_TRACING_MARK_WRITE
            | event::G2D_TRACING_MARK_WRITE
            | event::MALI_TRACING_MARK_WRITE
            | event::LWIS_TRACING_MARK_WRITE
            | event::SAMSUNG_TRACING_MARK_WRITE => print::of_driver(cx, head, number, body),
            event::UFSHCD_COMMAND => ufs::command(cx, head, body),
            event::WAKEUP_SOURCE_ACTIVATE
            | event::WAKEUP_SOURCE_DEACTIVATE
            | event::SUSPEND_RESUME_MINIMAL
            | event::CROS_EC_SENSORHUB_DATA
            | event::V4L2_QBUF
            | event::V4L2_DQBUF
            | event::VB2_V4L2_BUF_QUEUE
            | event::VB2_V4L2_BUF_DONE
            | event::VB2_V4L2_QBUF
            | event::VB2_V4L2_DQBUF
            | event::VIRTIO_GPU_CMD_QUEUE
            | event::VIRTIO_GPU_CMD_RESPONSE
            | event::VIRTIO_VIDEO_CMD
            | event::VIRTIO_VIDEO_CMD_DONE
            | event::VIRTIO_VIDEO_RESOURCE_QUEUE
            | event::VIRTIO_VIDEO_RESOURCE_QUEUE_DONE => {
                self.devices.parse(cx, head, number, body);
            }
            event::BLOCK_IO_START
            | event::BLOCK_IO_DONE
            | event::BLOCK_RQ_ISSUE
            | event::BLOCK_RQ_COMPLETE
            | event::BLOCK_RQ_REQUEUE => self.disks.parse(cx, head, number, body),
            event::SYS_ENTER => self.syscalls.enter(cx, head, body),
            event::SYS_EXIT => self.syscalls.exit(cx, head, body),
            number if Generic::is_generic(number) => {
                self.generic.track_event(cx, head, number, body);
            }
            number => {
                if !self.counters.parse(cx, head, number, body)
                    && !self.drm.parse(cx, head, number, body)
                    && !buffers::parse(cx, head, number, body)
                    && !self.binder.parse(cx, head, number, body)
                    && !hypervisor::parse(cx, head, number, body)
                {
                    self.slices.parse(cx, head, number, body);
                }
            }
        }
    }

    /// Sets what is known of the whole trace if this is a part of it.
    pub(crate) fn begin_part(&mut self, options: &Options) {
        self.disks.begin_part(options);
    }

    /// Ends what the trace does not end, after all events were parsed.
    pub(crate) fn finish(&mut self, cx: &mut Context) {
        self.disks.finish(cx);
    }

    /// Reads a `FtraceStats`.
    pub(crate) fn stats(&mut self, cx: &mut Context, bytes: &[u8], sequence: u32) {
        let is_known = self.sequences_with_errors.contains(&sequence);
        let read = stats::parse(cx, bytes, is_known);
        if read.has_errors && self.sequences_with_errors.len() < 1 << 10 {
            self.sequences_with_errors.push(sequence);
        }
        if read.preserves {
            machine(&mut self.machines, cx.store.machine).preserves = true;
        }
    }

    /// Handles new properties of the kernel of the current machine.
    pub(crate) fn kernel_known(&mut self, cx: &Context) {
        let machine = machine(&mut self.machines, cx.store.machine);
        machine.kernel = cx.kernels.get(&cx.store);
    }
}

impl Machine {
    #[cold]
    fn begin(&mut self, cx: &mut Context) -> Cut {
        cx.processes.set_idle_task(&mut cx.store);
        let drop = if self.preserves {
            0
        } else {
            fact(cx, "tracing_started_ns").unwrap_or(0)
        };
        let start = fact(cx, "ftrace_latest_data_start_ns").unwrap_or(0);
        let cut = Cut {
            drop,
            raw_only: start.max(drop),
        };
        self.cut = Some(cut);
        cut
    }
}

fn machine(machines: &mut Vec<Machine>, number: u32) -> &mut Machine {
    let index = number as usize;
    if machines.len() <= index {
        machines.resize_with(index + 1, Machine::default);
    }
    &mut machines[index]
}

fn fact(cx: &Context, name: &str) -> Option<i64> {
    match cx.metadata.get(&cx.store, name) {
        Some(Fact::Int(value)) => Some(value),
        _ => None,
    }
}

/// Pushes an event. Returns its field in `FtraceEvent`.
fn tokenize_event(
    cx: &mut Context,
    input: &Input<'_>,
    cpu: u32,
    clock: ClockId,
    bytes: &[u8],
    out: &mut Out<'_>,
) -> u32 {
    let (mut time, mut kind) = (None, 0);
    Fields::walk_while(bytes, |field| {
        match (field.number, field.value) {
            (event::TIMESTAMP, Value::Varint(value)) => time = Some(value as i64),
            (number, Value::Bytes(_)) => kind = number,
            _ => {}
        }
        kind == 0 || time.is_none()
    });
    let stat = match time {
        None => Stat::ftrace_bundle_tokenizer_errors,
        Some(_) if kind == 0 => Stat::ftrace_missing_event_id,
        Some(time) => {
            if let Ok(ts) = cx.clocks.trace_time(clock, time) {
                let event = Event::Ftrace {
                    cpu: cpu as u16,
                    span: input.span(bytes),
                };
                out.push(&mut cx.store, Stream::Ftrace(cpu), ts, event);
            }
            return kind;
        }
    };
    cx.store.stats.add(stat, 1);
    kind
}
