//! The threads of a trace and their CPU times.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use ferretto_proto::views::process_tree::{ProcessView, ThreadView};
use ferretto_proto::views::{
    ProcessDescriptorView, ProcessTreeView, TaskNewtaskFtraceEventView, ThreadDescriptorView,
    TrackDescriptorView,
};

use crate::limits::{Budget, entry_bytes};
use crate::printable::{MAX_TEXT as MAX_NAME, printable, printable_within};

/// The maximum number of threads and of processes, so that memory is bounded for any input. Others
/// are not counted.
const MAX_THREADS: usize = 1 << 20;

/// The maximum length of a stored thread name, in bytes; the kernel's are shorter.
const MAX_COMM: usize = 64;

/// The memory of a process with its name, including its entry in the list of processes that ran.
const PROCESS_BYTES: usize = entry_bytes::<((u32, i32), String)>() + MAX_NAME;
/// The memory of a thread with its name, including its entry in the list of processes that ran.
const THREAD_BYTES: usize = 3 * entry_bytes::<((u32, i32), Thread)>() + 64;

/// `CLONE_THREAD` of clone(2): the new task belongs to its parent's process.
const CLONE_THREAD: u64 = 0x0001_0000;

/// The CPU time of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessSummary {
    /// The process id, or the thread id of a thread whose process is unknown.
    pub pid: i32,
    /// The machine on which it ran; 0 is the machine of the tracing service.
    pub machine: u32,
    /// Its command line if the trace contains it, otherwise the name of its thread.
    pub name: String,
    /// Its CPU time, in nanoseconds.
    pub cpu_ns: u64,
    /// The number of its threads that ran.
    pub threads: usize,
}

#[derive(Debug, Default)]
struct Thread {
    tgid: Option<i32>,
    /// The thread of the same process that created it. Its own creation may be read later: the file
    /// has the events of one CPU after the other.
    creator: Option<i32>,
    /// The parent process; set for the main thread of a process.
    parent: Option<i32>,
    comm: String,
    /// The timestamp of this name.
    named_at: u64,
    cpu_ns: u64,
}

/// Threads and processes by machine and id.
#[derive(Debug)]
pub(crate) struct Threads {
    budget: Budget,
    threads: HashMap<(u32, i32), Thread>,
    processes: HashMap<(u32, i32), String>,
    /// The processes whose name is that of their main thread.
    comms: HashSet<(u32, i32)>,
}

impl Threads {
    /// Creates an empty table.
    pub(crate) fn new(budget: &Budget) -> Self {
        Self {
            budget: budget.clone(),
            threads: HashMap::new(),
            processes: HashMap::new(),
            comms: HashSet::new(),
        }
    }

    /// Adds CPU time. Id 0 is the idle task and is not counted.
    pub(crate) fn add_time(&mut self, machine: u32, tid: i32, ns: u64) {
        if tid == 0 {
            return;
        }
        if let Some(thread) = self.thread(machine, tid) {
            thread.cpu_ns = thread.cpu_ns.saturating_add(ns);
        }
    }

    /// Sets the name that the kernel reported for a thread at a time. The newest name is kept: the
    /// file may contain the events of one CPU after newer events of another.
    pub(crate) fn set_comm(&mut self, machine: u32, at: u64, tid: i32, comm: &[u8]) {
        if let Some(thread) = self.thread(machine, tid)
            && thread.named_at <= at
        {
            thread.named_at = at;
            if thread.comm.as_bytes() != comm {
                thread.comm = printable_within(comm, MAX_COMM);
            }
        }
    }

    /// Reads a `task_newtask` event: `parent` created the task.
    pub(crate) fn new_task(&mut self, machine: u32, at: u64, parent: i32, event: &[u8]) {
        let task = TaskNewtaskFtraceEventView::read(event);
        let flags = task.clone_flags.unwrap_or(0);
        let Some(pid) = task.pid else { return };
        let from = self.threads.get(&(machine, parent));
        let from = from.and_then(|thread| thread.tgid);
        let is_process = flags & CLONE_THREAD == 0;
        let tgid = if is_process { Some(pid) } else { from };
        if let Some(thread) = self.thread(machine, pid) {
            thread.tgid = tgid.or(thread.tgid);
            if is_process {
                thread.parent = from.or(Some(parent));
            } else {
                thread.creator = Some(parent);
            }
        }
        if let Some(comm) = task.comm {
            self.set_comm(machine, at, pid, comm);
        }
    }

    /// Reads a `ProcessTree` packet.
    pub(crate) fn process_tree(&mut self, machine: u32, tree: &[u8]) {
        let tree = ProcessTreeView::read(tree);
        for process in tree.processes {
            self.process(machine, &ProcessView::read(process));
        }
        for thread in tree.threads {
            self.tree_thread(machine, &ThreadView::read(thread));
        }
    }

    fn process(&mut self, machine: u32, process: &ProcessView<'_>) {
        let mut name = String::new();
        for word in process.cmdline.iter().filter(|word| !word.is_empty()) {
            if name.len() >= MAX_NAME {
                break;
            }
            if !name.is_empty() {
                name.push(' ');
            }
            name.push_str(&printable(word));
        }
        let Some(pid) = process.pid else { return };
        if let Some(thread) = self.thread(machine, pid) {
            thread.tgid = Some(pid);
            thread.parent = process.ppid.or(thread.parent);
        }
        let has_name = !name.is_empty();
        self.name_process(machine, pid, name);
        if has_name && self.processes.contains_key(&(machine, pid)) {
            if process.cmdline_is_comm == Some(true) {
                self.comms.insert((machine, pid));
            } else {
                self.comms.remove(&(machine, pid));
            }
        }
    }

    /// Reads a `TrackDescriptor`. Its names are used for processes and threads without others.
    pub(crate) fn track_descriptor(&mut self, machine: u32, descriptor: &[u8]) {
        let has_text = |name: &&[u8]| !name.is_empty();
        let descriptor = TrackDescriptorView::read(descriptor);
        let process = ProcessDescriptorView::read(descriptor.process.unwrap_or_default());
        if let Some(pid) = process.pid
            && let Some(name) = process.process_name.filter(has_text)
            && self.process_name(machine, pid).is_none()
        {
            self.name_process(machine, pid, printable(name));
        }
        let thread = ThreadDescriptorView::read(descriptor.thread.unwrap_or_default());
        if let Some(tid) = thread.tid.map(|tid| tid as i32)
            && let Some(name) = thread.thread_name.filter(has_text)
            && self.thread_name(machine, tid).is_none()
            && let Some(known) = self.thread(machine, tid)
        {
            known.comm = printable_within(name, MAX_COMM);
            known.tgid = known.tgid.or(thread.pid);
        }
    }

    fn tree_thread(&mut self, machine: u32, thread: &ThreadView<'_>) {
        let Some(tid) = thread.tid else { return };
        if let Some(known) = self.thread(machine, tid) {
            known.tgid = thread.tgid.or(known.tgid);
            // The last name is kept: the thread may have executed another program.
            if let Some(name) = thread.name.filter(|name| !name.is_empty()) {
                known.comm = printable_within(name, MAX_COMM);
            }
        }
    }

    /// Sets the name of a process from its process tree entry or track descriptor.
    pub(crate) fn name_process(&mut self, machine: u32, pid: i32, name: String) {
        let known = self.processes.len() < MAX_THREADS;
        if name.is_empty() {
            return;
        }
        match self.processes.entry((machine, pid)) {
            Entry::Occupied(mut known) => *known.get_mut() = name,
            Entry::Vacant(new) if known && self.budget.take(PROCESS_BYTES) => {
                new.insert(name);
            }
            Entry::Vacant(_) => {}
        }
    }

    /// Returns true if the name of a process is that of its main thread, not a command line.
    pub(crate) fn is_comm(&self, machine: u32, pid: i32) -> bool {
        self.comms.contains(&(machine, pid)) || !self.processes.contains_key(&(machine, pid))
    }

    /// Returns the name of a process, if the trace contains it.
    pub(crate) fn process_name(&self, machine: u32, pid: i32) -> Option<&str> {
        let named = self.processes.get(&(machine, pid)).map(String::as_str);
        let comm = || {
            self.threads
                .get(&(machine, pid))
                .map(|thread| thread.comm.as_str())
        };
        named.or_else(comm).filter(|name| !name.is_empty())
    }

    /// Returns the name of a thread, if the trace contains it.
    pub(crate) fn thread_name(&self, machine: u32, tid: i32) -> Option<&str> {
        let thread = self.threads.get(&(machine, tid));
        let comm = thread.map(|thread| thread.comm.as_str());
        comm.filter(|name| !name.is_empty())
    }

    /// Finds a process with this command line on the service's machine.
    pub(crate) fn process_named(&self, command: &str) -> Option<i32> {
        let mut named = self.processes.iter();
        let found = named.find(|((machine, _), name)| *machine == 0 && *name == command);
        found.map(|((_, pid), _)| *pid)
    }

    /// Returns processes of the service's machine and all their descendants.
    pub(crate) fn with_descendants(&self, pids: impl Iterator<Item = i32>) -> BTreeSet<i32> {
        let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        for (&(machine, tid), thread) in &self.threads {
            if let Some(parent) = thread.parent.filter(|_| machine == 0) {
                children.entry(parent).or_default().push(tid);
            }
        }
        let mut found: BTreeSet<i32> = pids.collect();
        let mut next: Vec<i32> = found.iter().copied().collect();
        while let Some(parent) = next.pop() {
            let new = children.remove(&parent).unwrap_or_default();
            next.extend(new.into_iter().filter(|child| found.insert(*child)));
        }
        found
    }

    /// Returns the CPU time and the number of threads of processes on the service's machine.
    pub(crate) fn of_processes(&self, pids: &BTreeSet<i32>) -> (u64, usize) {
        let (mut cpu_ns, mut count) = (0u64, 0);
        for (&(machine, tid), thread) in &self.threads {
            if machine == 0 && pids.contains(&self.process_of(machine, tid)) {
                cpu_ns = cpu_ns.saturating_add(thread.cpu_ns);
                count += 1;
            }
        }
        (cpu_ns, count)
    }

    /// Returns the process of a thread, or its own id if it is unknown.
    pub(crate) fn process_of(&self, machine: u32, tid: i32) -> i32 {
        /// The longest chain of threads that created each other.
        const MAX_CREATORS: usize = 64;
        let mut of = tid;
        for _ in 0..MAX_CREATORS {
            let Some(thread) = self.threads.get(&(machine, of)) else {
                break;
            };
            match (thread.tgid, thread.creator) {
                (Some(pid), _) => return pid,
                (None, Some(creator)) => of = creator,
                (None, None) => break,
            }
        }
        tid
    }

    /// Returns the number of known threads.
    pub(crate) fn len(&self) -> usize {
        self.threads.len()
    }

    /// Returns the processes that ran, in descending order of CPU time.
    pub(crate) fn by_process(&self) -> Vec<ProcessSummary> {
        let mut processes: HashMap<(u32, i32), ProcessSummary> = HashMap::new();
        for (&(machine, tid), thread) in &self.threads {
            if thread.cpu_ns == 0 {
                continue;
            }
            let pid = self.process_of(machine, tid);
            let entry = processes
                .entry((machine, pid))
                .or_insert_with(|| ProcessSummary {
                    pid,
                    machine,
                    name: self
                        .process_name(machine, pid)
                        .unwrap_or(&thread.comm)
                        .to_owned(),
                    cpu_ns: 0,
                    threads: 0,
                });
            entry.cpu_ns = entry.cpu_ns.saturating_add(thread.cpu_ns);
            entry.threads += 1;
        }
        let mut processes: Vec<_> = processes.into_values().collect();
        processes.sort_by_key(|process| (std::cmp::Reverse(process.cpu_ns), process.pid));
        processes
    }

    fn thread(&mut self, machine: u32, tid: i32) -> Option<&mut Thread> {
        let is_full = self.threads.len() >= MAX_THREADS;
        match self.threads.entry((machine, tid)) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(_) if is_full || !self.budget.take(THREAD_BYTES) => None,
            Entry::Vacant(new) => Some(new.insert(Thread::default())),
        }
    }
}
