//! Work of the kernel: system calls, interrupts and disk requests with their durations, and counts
//! of other events, such as network packets and function calls.

mod pairs;
mod rows;

use std::collections::{BTreeMap, BTreeSet};

use ferretto_format::disk::{RequestEvents, request_direction};
use ferretto_format::kernel_names::Architecture;
// All events of requests have their first fields.
use ferretto_proto::fields::block_rq_issue_ftrace_event as request;
use ferretto_proto::fields::{
    block_io_start_ftrace_event, ftrace_event, inet_sock_set_state_ftrace_event,
    irq_handler_entry_ftrace_event, net_dev_xmit_ftrace_event, sched_process_exit_ftrace_event,
    softirq_entry_ftrace_event, sys_enter_ftrace_event, sys_exit_ftrace_event, system_info,
    utsname,
};
use ferretto_wire::Fields;

pub use self::rows::{ActivityKind, ActivitySummary};

use self::rows::{Name, Sum, rows};
use super::described::Described;
use super::disks::Disks;
use crate::limits::Budget;
use crate::printable::printable;
use crate::threads::Threads;

/// The state of an established TCP connection.
const TCP_ESTABLISHED: u64 = 1;
/// The prefix of event groups that `record --uprobe` and `--kprobe` create.
const PROBES: &str = "ferretto_";

/// The highest error number that programs see. Higher ones are internal to the kernel, such as
/// those of calls that a signal interrupts and that are then restarted.
const MAX_ERROR: i64 = 511;

/// The maximum numbers of machines and of unfinished activities, so that memory is bounded for any
/// input. Others are left out.
const MAX_MACHINES: usize = 1 << 12;
const MAX_OPEN: usize = 1 << 16;

/// The names of the soft interrupts, by number.
const SOFTIRQS: [&str; 10] = [
    "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU",
];

/// The key of an unfinished activity: its kind, machine, and two numbers that identify its thread,
/// CPU or device.
type ActivityKey = (ActivityKind, u32, u64, u64);

/// A begin or end event.
#[derive(Debug, Clone, Copy)]
struct Edge {
    at: u64,
    id: ActivityKey,
    step: Step,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Work begins; contains the index of its sum.
    Begin(u32),
    End,
    /// A system call begins; contains its number.
    Enter(u64),
    /// The thread has executed a program.
    Execute,
    /// A system call returns; contains its number and whether it failed.
    Return(u64, bool),
    /// Events of the machine are missing, so an end may belong to a later begin.
    Gap,
    /// The thread ends, and with it the functions that it is in.
    Exit,
}

/// A kernel event.
#[derive(Clone, Copy)]
pub(super) struct KernelEvent<'a> {
    pub(super) machine: u32,
    pub(super) cpu: u32,
    pub(super) pid: i32,
    /// The time on the clock of the kernel's buffers, in nanoseconds.
    pub(super) at: u64,
    /// The field number in `FtraceEvent`.
    pub(super) kind: u32,
    /// The description of an event without its own field.
    pub(super) described: Option<&'a Described>,
    pub(super) body: &'a [u8],
}

/// Collects the activity summaries.
#[derive(Debug)]
pub(super) struct Activity {
    budget: Budget,
    names: BTreeMap<(ActivityKind, Name), u32>,
    sums: Vec<Sum>,
    waiting: Vec<Edge>,
    /// The begin time, and the index of the sum.
    open: BTreeMap<ActivityKey, (u64, u32)>,
    /// The begin times of the calls of a function that a thread is in, the outermost first.
    calls: BTreeMap<ActivityKey, Vec<u64>>,
    open_calls: usize,
    /// The machine and the id of threads that have executed a program.
    executed: BTreeSet<(u32, u64)>,
    architectures: BTreeMap<u32, Architecture>,
    disks: Disks,
}

impl Activity {
    pub(super) fn new(budget: &Budget) -> Self {
        Self {
            budget: budget.clone(),
            names: BTreeMap::new(),
            sums: Vec::new(),
            waiting: Vec::new(),
            open: BTreeMap::new(),
            calls: BTreeMap::new(),
            open_calls: 0,
            executed: BTreeSet::new(),
            architectures: BTreeMap::new(),
            disks: Disks::default(),
        }
    }

    /// Reads a `SystemInfo`, which determines the names of system calls.
    pub(super) fn describe(&mut self, machine: u32, bytes: &[u8]) {
        let name = Fields::find(system_info::UTSNAME, bytes)
            .and_then(|utsname| Fields::find(utsname::MACHINE, utsname.as_bytes()?))
            .and_then(|name| std::str::from_utf8(name.as_bytes()?).ok());
        if let Some(architecture) = name.and_then(Architecture::of_machine)
            && self.architectures.len() < MAX_MACHINES
        {
            self.architectures.insert(machine, architecture);
        }
    }

    /// Reads a `TraceAttributes`, which may contain names of disks.
    pub(super) fn attributes(&mut self, machine: u32, bytes: &[u8]) {
        self.disks.attributes(machine, bytes);
    }

    /// Records that events of the machine are missing before this time.
    pub(super) fn gap(&mut self, machine: u32, at: u64) {
        let id = (ActivityKind::SystemCall, machine, 0, 0);
        let step = Step::Gap;
        self.wait(Edge { at, id, step });
    }

    /// Reads an event.
    pub(super) fn event(&mut self, event: KernelEvent<'_>) {
        use ActivityKind::{
            Interrupt, Memory, Network, NetworkPacket, Probe, SoftInterrupt, SystemCall, Work,
        };
        if let Some(described) = event.described {
            let name = described.name.as_str();
            if described.probe.is_some() || described.group.starts_with(PROBES) {
                self.probe(&event, described);
            } else if described.group == "irq_vectors" {
                let (vector, is_entry) = match name.strip_suffix("_entry") {
                    Some(vector) => (vector, true),
                    None => (name.trim_end_matches("_exit"), false),
                };
                self.vector(&event, vector, is_entry);
            }
            return;
        }
        let number = |field| Fields::find(field, event.body).and_then(|field| field.as_u64());
        let text = |field| {
            let field = Fields::find(field, event.body);
            printable(field.and_then(|field| field.as_bytes()).unwrap_or_default())
        };
        let (machine, cpu) = (event.machine, u64::from(event.cpu));
        let thread = u64::from(event.pid.cast_unsigned());
        match event.kind {
            ftrace_event::SYS_ENTER => {
                let step = Step::Enter(number(sys_enter_ftrace_event::ID).unwrap_or(0));
                let (at, id) = (event.at, (SystemCall, machine, thread, 0));
                self.wait(Edge { at, id, step });
            }
            ftrace_event::SCHED_PROCESS_EXEC => {
                let (at, id) = (event.at, (SystemCall, machine, thread, 0));
                let step = Step::Execute;
                self.wait(Edge { at, id, step });
            }
            ftrace_event::SYS_EXIT => {
                let call = number(sys_exit_ftrace_event::ID).unwrap_or(0);
                let result = number(sys_exit_ftrace_event::RET)
                    .unwrap_or(0)
                    .cast_signed();
                let step = Step::Return(call, (-MAX_ERROR..0).contains(&result));
                let id = (SystemCall, machine, thread, 0);
                self.wait(Edge {
                    at: event.at,
                    id,
                    step,
                });
            }
            // A call that does not return ends with its thread.
            ftrace_event::SCHED_PROCESS_EXIT | ftrace_event::SCHED_PROCESS_FREE => {
                let thread = number(sched_process_exit_ftrace_event::PID).unwrap_or(thread);
                self.end((SystemCall, machine, thread, 0), event.at);
                let id = (Probe, machine, thread, 0);
                let (at, step) = (event.at, Step::Exit);
                self.wait(Edge { at, id, step });
            }
            ftrace_event::LOCAL_TIMER_ENTRY => self.vector(&event, "local_timer", true),
            ftrace_event::LOCAL_TIMER_EXIT => self.vector(&event, "local_timer", false),
            ftrace_event::WORKQUEUE_EXECUTE_START => {
                let name = Name::Text("work items".to_owned());
                self.begin((Work, machine, thread, 0), event.at, name, 0);
            }
            ftrace_event::WORKQUEUE_EXECUTE_END => self.end((Work, machine, thread, 0), event.at),
            ftrace_event::MM_VMSCAN_DIRECT_RECLAIM_BEGIN => {
                let name = Name::Text("direct reclaims".to_owned());
                self.begin((Memory, machine, thread, 0), event.at, name, 0);
            }
            ftrace_event::MM_VMSCAN_DIRECT_RECLAIM_END => {
                self.end((Memory, machine, thread, 0), event.at)
            }
            ftrace_event::MM_COMPACTION_BEGIN => {
                let name = Name::Text("compactions".to_owned());
                self.begin((Memory, machine, thread, 1), event.at, name, 0);
            }
            ftrace_event::MM_COMPACTION_END => self.end((Memory, machine, thread, 1), event.at),
            ftrace_event::MM_VMSCAN_KSWAPD_WAKE => {
                let name = "background reclaims".to_owned();
                self.count(Memory, Name::Text(name), 0);
            }
            ftrace_event::MARK_VICTIM => {
                let name = "processes killed for lack of memory".to_owned();
                self.count(Memory, Name::Text(name), 0);
            }
            ftrace_event::KFREE_SKB => {
                self.count(Network, Name::Text("packets dropped".to_owned()), 0);
            }
            ftrace_event::TCP_RETRANSMIT_SKB => {
                let name = "TCP segments retransmitted".to_owned();
                self.count(Network, Name::Text(name), 0);
            }
            ftrace_event::INET_SOCK_SET_STATE
                if number(inet_sock_set_state_ftrace_event::NEWSTATE) == Some(TCP_ESTABLISHED) =>
            {
                let name = "TCP connections established".to_owned();
                self.count(Network, Name::Text(name), 0);
            }
            ftrace_event::IRQ_HANDLER_ENTRY => {
                let name = Name::Text(text(irq_handler_entry_ftrace_event::NAME));
                self.begin((Interrupt, machine, cpu, 0), event.at, name, 0);
            }
            ftrace_event::IRQ_HANDLER_EXIT => self.end((Interrupt, machine, cpu, 0), event.at),
            ftrace_event::SOFTIRQ_ENTRY => {
                let vector = number(softirq_entry_ftrace_event::VEC).unwrap_or(0);
                let name = usize::try_from(vector).ok().and_then(|it| SOFTIRQS.get(it));
                let name = name.map_or_else(|| vector.to_string(), |name| (*name).to_owned());
                self.begin(
                    (SoftInterrupt, machine, cpu, 0),
                    event.at,
                    Name::Text(name),
                    0,
                );
            }
            ftrace_event::SOFTIRQ_EXIT => self.end((SoftInterrupt, machine, cpu, 0), event.at),
            ftrace_event::BLOCK_RQ_ISSUE => {
                self.request(&event, RequestEvents::Driver, request::RWBS)
            }
            ftrace_event::BLOCK_IO_START => self.request(
                &event,
                RequestEvents::Accounting,
                block_io_start_ftrace_event::RWBS,
            ),
            ftrace_event::BLOCK_RQ_COMPLETE | ftrace_event::BLOCK_RQ_REQUEUE => {
                self.end(request(&event, RequestEvents::Driver), event.at);
            }
            ftrace_event::BLOCK_IO_DONE => {
                self.end(request(&event, RequestEvents::Accounting), event.at)
            }
            ftrace_event::NETIF_RECEIVE_SKB | ftrace_event::NET_DEV_XMIT => {
                let direction = match event.kind {
                    ftrace_event::NET_DEV_XMIT => "sent",
                    _ => "received",
                };
                let name = Name::Text(format!(
                    "{} {direction}",
                    text(net_dev_xmit_ftrace_event::NAME)
                ));
                self.count(
                    NetworkPacket,
                    name,
                    number(net_dev_xmit_ftrace_event::LEN).unwrap_or(0),
                );
            }
            _ => {}
        }
    }

    /// Records the call or the return of a function.
    fn probe(&mut self, event: &KernelEvent<'_>, described: &Described) {
        let kind = ActivityKind::Probe;
        let name = || Name::Text(described.name.clone());
        let Some(probe) = described.probe.as_ref().filter(|_| described.is_paired) else {
            self.count(kind, name(), 0);
            return;
        };
        // Several functions can be open in a thread.
        let function = Name::Text(probe.function.clone());
        // The bundle of another CPU, which has the call, may follow that with the return.
        let known = if probe.is_return {
            self.index(kind, function)
        } else {
            self.count(kind, function, 0)
        };
        let Some(sum) = known else { return };
        let thread = u64::from(event.pid.cast_unsigned());
        let id = (kind, event.machine, thread, sum.into());
        let (at, step) = if probe.is_return {
            (event.at, Step::End)
        } else {
            (event.at, Step::Begin(sum))
        };
        self.wait(Edge { at, id, step });
    }

    /// Records the begin or end of a CPU-local interrupt.
    fn vector(&mut self, event: &KernelEvent<'_>, name: &str, is_entry: bool) {
        // Tracked separately from interrupts of devices, which they may interrupt.
        let cpu = u64::from(event.cpu);
        let id = (ActivityKind::Interrupt, event.machine, cpu, 1);
        if is_entry {
            self.begin(id, event.at, Name::Text(name.to_owned()), 0)
        } else {
            self.end(id, event.at)
        }
    }

    /// Begins a request to a disk. `rwbs` is the field with its direction.
    fn request(&mut self, event: &KernelEvent<'_>, events: RequestEvents, rwbs: u32) {
        let number = |field| Fields::find(field, event.body).and_then(|field| field.as_u64());
        let rwbs = Fields::find(rwbs, event.body).and_then(|field| field.as_bytes());
        let disk = self
            .disks
            .name(event.machine, number(request::DEV).unwrap_or(0));
        let direction = request_direction(rwbs.unwrap_or_default());
        let name = Name::Request(events, format!("{disk} {direction}"));
        let bytes = number(request::BYTES).unwrap_or(0);
        self.begin(request(event, events), event.at, name, bytes);
    }

    fn begin(&mut self, id: ActivityKey, at: u64, name: Name, bytes: u64) {
        if let Some(sum) = self.count(id.0, name, bytes) {
            let step = Step::Begin(sum);
            self.wait(Edge { at, id, step });
        }
    }

    fn end(&mut self, id: ActivityKey, at: u64) {
        let step = Step::End;
        self.wait(Edge { at, id, step });
    }

    /// Counts an event, and returns the index of its sum.
    fn count(&mut self, kind: ActivityKind, name: Name, bytes: u64) -> Option<u32> {
        let index = self.index(kind, name)?;
        let sum = self.sums.get_mut(index as usize)?;
        sum.count = sum.count.saturating_add(1);
        sum.bytes = sum.bytes.saturating_add(bytes);
        Some(index)
    }

    /// Returns the index of the sum of a name, which is made if it does not exist.
    fn index(&mut self, kind: ActivityKind, name: Name) -> Option<u32> {
        let key = (kind, name);
        match self.names.get(&key) {
            Some(index) => Some(*index),
            None if !self.budget.take(key.1.bytes()) => None,
            None => {
                let index = self.sums.len() as u32;
                self.sums.push(Sum::default());
                self.names.insert(key, index);
                Some(index)
            }
        }
    }

    /// Returns the sums by kind, in descending order of total duration, and those of the system
    /// calls of some processes; of the main thread of the command, only those of the program.
    pub(super) fn finish(
        mut self,
        threads: &Threads,
        pids: &BTreeSet<i32>,
        command: Option<i32>,
    ) -> (Vec<ActivitySummary>, Vec<ActivitySummary>) {
        self.pair_all();
        let mut calls = BTreeMap::new();
        for architecture in self.architectures.values() {
            let names = architecture.system_calls();
            let names = names.map(|(name, number)| (u64::from(number), name));
            calls
                .entry(*architecture)
                .or_insert_with(|| names.collect::<BTreeMap<_, _>>());
        }
        let call = |machine: &u32, number: &u64| {
            let architecture = self.architectures.get(machine);
            let name = architecture.and_then(|it| calls.get(it)?.get(number));
            name.map_or_else(
                || format!("system call {number}"),
                |name| (*name).to_owned(),
            )
        };
        let requests = self.names.keys().filter_map(|(_, name)| match name {
            Name::Request(events, _) => Some(*events),
            _ => None,
        });
        let requests = requests.max();
        let mut all: BTreeMap<(ActivityKind, String), Sum> = BTreeMap::new();
        let mut own: BTreeMap<(ActivityKind, String), Sum> = BTreeMap::new();
        for ((kind, name), index) in &self.names {
            let Some(sum) = self.sums.get(*index as usize) else {
                continue;
            };
            if sum.count == 0 {
                continue;
            }
            let name = match name {
                Name::SystemCall(of) => {
                    let name = call(&of.machine, &of.number);
                    let tid = i32::try_from(of.thread).unwrap_or(0);
                    let is_of_recorder = command == Some(tid)
                        && !of.has_executed
                        && self.executed.contains(&(of.machine, of.thread));
                    if of.machine == 0
                        && !is_of_recorder
                        && pids.contains(&threads.process_of(0, tid))
                    {
                        own.entry((*kind, name.clone())).or_default().add(sum);
                    }
                    name
                }
                Name::Request(events, _) if requests > Some(*events) => continue,
                Name::Request(_, text) | Name::Text(text) => text.clone(),
            };
            all.entry((*kind, name)).or_default().add(sum);
        }
        (rows(all), rows(own))
    }
}

/// Returns the key of a request: its device and sector.
fn request(event: &KernelEvent<'_>, events: RequestEvents) -> ActivityKey {
    let number = |field| Fields::find(field, event.body).and_then(|field| field.as_u64());
    let (device, sector) = (
        number(request::DEV).unwrap_or(0),
        number(request::SECTOR).unwrap_or(0),
    );
    // A sector has 512 bytes, so its highest bits are 0.
    let number = sector << 1 | u64::from(events == RequestEvents::Accounting);
    (ActivityKind::DiskRequest, event.machine, device, number)
}
