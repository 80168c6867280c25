//! Work of the kernel: system calls, interrupts and disk requests with their durations, and counts
//! of other events, such as network packets and function calls.

mod rows;

use std::collections::{BTreeMap, BTreeSet};

use ferretto_format::disk::{RequestEvents, request_direction};
use ferretto_format::kernel_names::Architecture;
use ferretto_wire::Fields;

pub use self::rows::{ActivityKind, ActivitySummary};

use self::rows::{Call, Name, Sum, rows};
use super::described::Described;
use super::disks::Disks;
use crate::limits::{Budget, entry_bytes};
use crate::printable::printable;
use crate::threads::Threads;

/// `FtraceEvent` fields.
const SOFTIRQ_ENTRY: u32 = 24;
const SOFTIRQ_EXIT: u32 = 25;
const IRQ_HANDLER_ENTRY: u32 = 36;
const IRQ_HANDLER_EXIT: u32 = 37;
const BLOCK_RQ_ISSUE: u32 = 45;
const DIRECT_RECLAIM_BEGIN: u32 = 46;
const DIRECT_RECLAIM_END: u32 = 47;
const KSWAPD_WAKE: u32 = 48;
const WORK_END: u32 = 57;
const WORK_START: u32 = 58;
const COMPACTION_BEGIN: u32 = 99;
const COMPACTION_END: u32 = 103;
const BLOCK_RQ_COMPLETE: u32 = 125;
const BLOCK_RQ_REQUEUE: u32 = 129;
const BLOCK_IO_START: u32 = 546;
const BLOCK_IO_DONE: u32 = 547;
const SCHED_PROCESS_EXEC: u32 = 237;
const SCHED_PROCESS_EXIT: u32 = 238;
const SCHED_PROCESS_FREE: u32 = 240;
const SYS_ENTER: u32 = 329;
const SYS_EXIT: u32 = 330;
const MARK_VICTIM: u32 = 334;
const NETIF_RECEIVE_SKB: u32 = 360;
const NET_DEV_XMIT: u32 = 361;
const INET_SOCK_SET_STATE: u32 = 362;
const TCP_RETRANSMIT_SKB: u32 = 363;
const KFREE_SKB: u32 = 367;
const LOCAL_TIMER_ENTRY: u32 = 559;
const LOCAL_TIMER_EXIT: u32 = 560;

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

/// The maximum number of begin and end events held back for sorting: the kernel's buffers are read
/// one CPU after the other, and a thread can migrate to another CPU during a system call.
const MAX_WAITING: usize = 1 << 17;

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
        let name = Fields::find(1, bytes)
            .and_then(|utsname| Fields::find(4, utsname.as_bytes()?))
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
            SYS_ENTER => {
                let step = Step::Enter(number(1).unwrap_or(0));
                let (at, id) = (event.at, (SystemCall, machine, thread, 0));
                self.wait(Edge { at, id, step });
            }
            SCHED_PROCESS_EXEC => {
                let (at, id) = (event.at, (SystemCall, machine, thread, 0));
                let step = Step::Execute;
                self.wait(Edge { at, id, step });
            }
            SYS_EXIT => {
                let call = number(1).unwrap_or(0);
                let result = number(2).unwrap_or(0).cast_signed();
                let step = Step::Return(call, (-MAX_ERROR..0).contains(&result));
                let id = (SystemCall, machine, thread, 0);
                self.wait(Edge {
                    at: event.at,
                    id,
                    step,
                });
            }
            // A call that does not return ends with its thread.
            SCHED_PROCESS_EXIT | SCHED_PROCESS_FREE => {
                let thread = number(2).unwrap_or(thread);
                self.end((SystemCall, machine, thread, 0), event.at);
                let id = (Probe, machine, thread, 0);
                let (at, step) = (event.at, Step::Exit);
                self.wait(Edge { at, id, step });
            }
            LOCAL_TIMER_ENTRY => self.vector(&event, "local_timer", true),
            LOCAL_TIMER_EXIT => self.vector(&event, "local_timer", false),
            WORK_START => {
                let name = Name::Text("work items".to_owned());
                self.begin((Work, machine, thread, 0), event.at, name, 0);
            }
            WORK_END => self.end((Work, machine, thread, 0), event.at),
            DIRECT_RECLAIM_BEGIN => {
                let name = Name::Text("direct reclaims".to_owned());
                self.begin((Memory, machine, thread, 0), event.at, name, 0);
            }
            DIRECT_RECLAIM_END => self.end((Memory, machine, thread, 0), event.at),
            COMPACTION_BEGIN => {
                let name = Name::Text("compactions".to_owned());
                self.begin((Memory, machine, thread, 1), event.at, name, 0);
            }
            COMPACTION_END => self.end((Memory, machine, thread, 1), event.at),
            KSWAPD_WAKE => {
                let name = "background reclaims".to_owned();
                self.count(Memory, Name::Text(name), 0);
            }
            MARK_VICTIM => {
                let name = "processes killed for lack of memory".to_owned();
                self.count(Memory, Name::Text(name), 0);
            }
            KFREE_SKB => {
                self.count(Network, Name::Text("packets dropped".to_owned()), 0);
            }
            TCP_RETRANSMIT_SKB => {
                let name = "TCP segments retransmitted".to_owned();
                self.count(Network, Name::Text(name), 0);
            }
            INET_SOCK_SET_STATE if number(4) == Some(TCP_ESTABLISHED) => {
                let name = "TCP connections established".to_owned();
                self.count(Network, Name::Text(name), 0);
            }
            IRQ_HANDLER_ENTRY => {
                let name = Name::Text(text(2));
                self.begin((Interrupt, machine, cpu, 0), event.at, name, 0);
            }
            IRQ_HANDLER_EXIT => self.end((Interrupt, machine, cpu, 0), event.at),
            SOFTIRQ_ENTRY => {
                let vector = number(1).unwrap_or(0);
                let name = usize::try_from(vector).ok().and_then(|it| SOFTIRQS.get(it));
                let name = name.map_or_else(|| vector.to_string(), |name| (*name).to_owned());
                self.begin(
                    (SoftInterrupt, machine, cpu, 0),
                    event.at,
                    Name::Text(name),
                    0,
                );
            }
            SOFTIRQ_EXIT => self.end((SoftInterrupt, machine, cpu, 0), event.at),
            BLOCK_RQ_ISSUE => self.request(&event, RequestEvents::Driver, 5),
            BLOCK_IO_START => self.request(&event, RequestEvents::Accounting, 6),
            BLOCK_RQ_COMPLETE | BLOCK_RQ_REQUEUE => {
                self.end(request(&event, RequestEvents::Driver), event.at);
            }
            BLOCK_IO_DONE => self.end(request(&event, RequestEvents::Accounting), event.at),
            NETIF_RECEIVE_SKB | NET_DEV_XMIT => {
                let direction = match event.kind {
                    NET_DEV_XMIT => "sent",
                    _ => "received",
                };
                let name = Name::Text(format!("{} {direction}", text(2)));
                self.count(NetworkPacket, name, number(1).unwrap_or(0));
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
        let disk = self.disks.name(event.machine, number(1).unwrap_or(0));
        let direction = request_direction(rwbs.unwrap_or_default());
        let name = Name::Request(events, format!("{disk} {direction}"));
        let bytes = number(4).unwrap_or(0);
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

    fn wait(&mut self, edge: Edge) {
        self.waiting.push(edge);
        if self.waiting.len() >= MAX_WAITING {
            self.pair(MAX_WAITING / 2);
        }
    }

    /// Pairs the earliest `count` entries that are held back.
    fn pair(&mut self, count: usize) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.sort_by_key(|edge| edge.at);
        for edge in waiting.drain(..count.min(waiting.len())) {
            match edge.step {
                Step::Begin(_) if edge.id.0 == ActivityKind::Probe => {
                    if self.open_calls < MAX_OPEN {
                        self.open_calls += 1;
                        self.calls.entry(edge.id).or_default().push(edge.at);
                    }
                }
                Step::End if edge.id.0 == ActivityKind::Probe => {
                    self.end_call(edge.id, edge.at);
                }
                Step::Exit => {
                    let (kind, machine, thread, _) = edge.id;
                    let of_thread = edge.id..=(kind, machine, thread, u64::MAX);
                    let open = self.calls.range(of_thread).map(|(id, _)| *id);
                    for id in open.collect::<Vec<_>>() {
                        while self.end_call(id, edge.at) {}
                    }
                }
                Step::Begin(sum) => {
                    if self.open.len() < MAX_OPEN || self.open.contains_key(&edge.id) {
                        self.open.insert(edge.id, (edge.at, sum));
                    }
                }
                Step::End => self.close(edge),
                Step::Enter(number) => {
                    let name = Name::SystemCall(self.call(edge.id, number));
                    if let Some(sum) = self.count(edge.id.0, name, 0)
                        && (self.open.len() < MAX_OPEN || self.open.contains_key(&edge.id))
                    {
                        self.open.insert(edge.id, (edge.at, sum));
                    }
                }
                Step::Execute => self.execute(edge.id),
                Step::Return(number, failed) => {
                    // A return from another call, such as an interrupted one, is not of this one.
                    let name = Name::SystemCall(self.call(edge.id, number));
                    let sum = self.names.get(&(edge.id.0, name)).copied();
                    let open = self.open.get(&edge.id);
                    if open.is_some_and(|(_, open)| Some(*open) == sum) {
                        self.close(edge);
                        if failed
                            && let Some(sum) = self.sums.get_mut(sum.unwrap_or(u32::MAX) as usize)
                        {
                            sum.errors = sum.errors.saturating_add(1);
                        }
                    }
                }
                Step::Gap => {
                    self.open.retain(|id, _| id.1 != edge.id.1);
                    self.calls.retain(|id, _| id.1 != edge.id.1);
                    self.open_calls = self.calls.values().map(Vec::len).sum();
                }
            }
        }
        self.waiting = waiting;
    }

    /// Returns the key of a system call that a thread makes now.
    fn call(&self, (_, machine, thread, _): ActivityKey, number: u64) -> Call {
        Call {
            machine,
            thread,
            number,
            has_executed: self.executed.contains(&(machine, thread)),
        }
    }

    /// Records that a thread has executed a program. The call that did so is one of the program.
    fn execute(&mut self, id: ActivityKey) {
        let (kind, machine, thread, _) = id;
        let is_known = self.executed.contains(&(machine, thread));
        if is_known || !self.budget.take(entry_bytes::<((u32, u64), ())>()) {
            return;
        }
        self.executed.insert((machine, thread));
        let Some((since, before)) = self.open.get(&id).copied() else {
            return;
        };
        let first = Call {
            machine,
            thread,
            number: 0,
            has_executed: false,
        };
        let from = (kind, Name::SystemCall(first));
        let of_thread = self
            .names
            .range(from..)
            .map_while(|((_, name), sum)| match name {
                Name::SystemCall(call) if call.thread == thread => Some((*call, *sum)),
                _ => None,
            });
        let mut of_thread = of_thread.filter(|(_, sum)| *sum == before);
        let Some((call, _)) = of_thread.next() else {
            return;
        };
        let name = Name::SystemCall(Call {
            has_executed: true,
            ..call
        });
        if let Some(sum) = self.count(kind, name, 0) {
            self.open.insert(id, (since, sum));
            if let Some(before) = self.sums.get_mut(before as usize) {
                before.count = before.count.saturating_sub(1);
            }
        }
    }

    /// Ends the innermost call of a function. Returns false if there is none.
    fn end_call(&mut self, id: ActivityKey, at: u64) -> bool {
        let Some(begins) = self.calls.get_mut(&id) else {
            return false;
        };
        let begin = begins.pop();
        if begins.is_empty() {
            self.calls.remove(&id);
        }
        let sum = usize::try_from(id.3).ok();
        if let (Some(begin), Some(sum)) = (begin, sum.and_then(|sum| self.sums.get_mut(sum))) {
            self.open_calls -= 1;
            sum.add_time(at.saturating_sub(begin));
        }
        begin.is_some()
    }

    /// Ends an activity.
    fn close(&mut self, edge: Edge) {
        if let Some((since, sum)) = self.open.remove(&edge.id)
            && let Some(sum) = self.sums.get_mut(sum as usize)
        {
            sum.add_time(edge.at.saturating_sub(since));
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
        self.pair(MAX_WAITING);
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
    let (device, sector) = (number(1).unwrap_or(0), number(2).unwrap_or(0));
    // A sector has 512 bytes, so its highest bits are 0.
    let number = sector << 1 | u64::from(events == RequestEvents::Accounting);
    (ActivityKind::DiskRequest, event.machine, device, number)
}
