//! Who the threads of the trace are, and how long each ran.

use std::collections::HashMap;

use ferretto_wire::Fields;

/// Threads beyond this number are counted together, so that memory stays bounded on any input.
const MAX_THREADS: usize = 1 << 20;

/// Longest command line kept, in bytes.
const MAX_NAME: usize = 256;

/// `CLONE_THREAD` of clone(2): the new task belongs to its parent's process.
const CLONE_THREAD: u64 = 0x0001_0000;

/// CPU time of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessSummary {
    /// Process id, or the thread id of a thread whose process the trace does not name.
    pub pid: i32,
    /// The machine it ran on; 0 is the one of the tracing service.
    pub machine: u32,
    /// Its command line if the trace has it, else the name of its thread.
    pub name: String,
    /// Time on a CPU, in nanoseconds.
    pub cpu_ns: u64,
    /// How many of its threads ran.
    pub threads: usize,
}

#[derive(Debug, Default)]
struct Thread {
    tgid: Option<i32>,
    comm: String,
    cpu_ns: u64,
}

/// Threads by (machine, id).
#[derive(Debug, Default)]
pub(crate) struct Threads {
    threads: HashMap<(u32, i32), Thread>,
    processes: HashMap<(u32, i32), String>,
}

impl Threads {
    /// Adds time on a CPU. Id 0 is the idle task and is not counted.
    pub(super) fn add_time(&mut self, machine: u32, tid: i32, ns: u64) {
        if tid == 0 {
            return;
        }
        if let Some(thread) = self.thread(machine, tid) {
            thread.cpu_ns = thread.cpu_ns.saturating_add(ns);
        }
    }

    /// Notes the name under which the kernel scheduled a thread.
    pub(super) fn set_comm(&mut self, machine: u32, tid: i32, comm: &[u8]) {
        if let Some(thread) = self.thread(machine, tid)
            && thread.comm.as_bytes() != comm
        {
            thread.comm = printable(comm);
        }
    }

    /// Reads a `task_newtask` event: `parent` made the task.
    pub(super) fn new_task(&mut self, machine: u32, parent: i32, event: &[u8]) {
        let (mut pid, mut comm, mut flags) = (None, None, 0);
        for field in Fields::new(event).map_while(Result::ok) {
            match field.number {
                1 => pid = field.as_u64().map(|pid| pid as i32),
                2 => comm = field.as_bytes(),
                3 => flags = field.as_u64().unwrap_or(0),
                _ => {}
            }
        }
        let Some(pid) = pid else { return };
        let tgid = if flags & CLONE_THREAD == 0 {
            Some(pid)
        } else {
            self.threads
                .get(&(machine, parent))
                .and_then(|thread| thread.tgid)
        };
        if let Some(thread) = self.thread(machine, pid) {
            thread.tgid = tgid.or(thread.tgid);
        }
        if let Some(comm) = comm {
            self.set_comm(machine, pid, comm);
        }
    }

    /// Reads a `ProcessTree` packet.
    pub(crate) fn process_tree(&mut self, machine: u32, tree: &[u8]) {
        for field in Fields::new(tree).map_while(Result::ok) {
            match (field.number, field.as_bytes()) {
                (1, Some(process)) => self.process(machine, process),
                (2, Some(thread)) => self.tree_thread(machine, thread),
                _ => {}
            }
        }
    }

    fn process(&mut self, machine: u32, process: &[u8]) {
        let mut pid = None;
        let mut name = String::new();
        for field in Fields::new(process).map_while(Result::ok) {
            match field.number {
                1 => pid = field.as_u64().map(|pid| pid as i32),
                3 if name.len() < MAX_NAME => {
                    if let Some(word) = field.as_bytes().filter(|word| !word.is_empty()) {
                        if !name.is_empty() {
                            name.push(' ');
                        }
                        name.push_str(&printable(word));
                    }
                }
                _ => {}
            }
        }
        let Some(pid) = pid else { return };
        if let Some(thread) = self.thread(machine, pid) {
            thread.tgid = Some(pid);
        }
        self.name_process(machine, pid, name);
    }

    fn tree_thread(&mut self, machine: u32, thread: &[u8]) {
        let (mut tid, mut tgid, mut name) = (None, None, None);
        for field in Fields::new(thread).map_while(Result::ok) {
            match field.number {
                1 => tid = field.as_u64().map(|tid| tid as i32),
                2 => name = field.as_bytes(),
                3 => tgid = field.as_u64().map(|tgid| tgid as i32),
                _ => {}
            }
        }
        let Some(tid) = tid else { return };
        if let Some(thread) = self.thread(machine, tid) {
            thread.tgid = tgid.or(thread.tgid);
            // The last one holds: the thread may have become another program.
            if let Some(name) = name.filter(|name| !name.is_empty()) {
                thread.comm = printable(name);
            }
        }
    }

    /// Names a process, as its process tree entry or its track descriptor does.
    pub(super) fn name_process(&mut self, machine: u32, pid: i32, name: String) {
        let known = self.processes.len() < MAX_THREADS;
        if !name.is_empty() && (known || self.processes.contains_key(&(machine, pid))) {
            self.processes.insert((machine, pid), name);
        }
    }

    /// The name of a process, if the trace tells it.
    pub(crate) fn process_name(&self, machine: u32, pid: i32) -> Option<&str> {
        let named = self.processes.get(&(machine, pid)).map(String::as_str);
        let comm = || {
            self.threads
                .get(&(machine, pid))
                .map(|thread| thread.comm.as_str())
        };
        named.or_else(comm).filter(|name| !name.is_empty())
    }

    /// The name of a thread, if the trace tells it.
    pub(crate) fn thread_name(&self, machine: u32, tid: i32) -> Option<&str> {
        let thread = self.threads.get(&(machine, tid));
        let comm = thread.map(|thread| thread.comm.as_str());
        comm.filter(|name| !name.is_empty())
    }

    /// How many threads the trace knows.
    pub(super) fn len(&self) -> usize {
        self.threads.len()
    }

    /// Processes that ran, the longest first.
    pub(super) fn by_process(&self) -> Vec<ProcessSummary> {
        let mut processes: HashMap<(u32, i32), ProcessSummary> = HashMap::new();
        for (&(machine, tid), thread) in &self.threads {
            if thread.cpu_ns == 0 {
                continue;
            }
            let pid = thread.tgid.unwrap_or(tid);
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
        let key = (machine, tid);
        if self.threads.len() >= MAX_THREADS && !self.threads.contains_key(&key) {
            return None;
        }
        Some(self.threads.entry(key).or_default())
    }
}

/// Text for a terminal: lossy UTF-8 without control characters, cut at [`MAX_NAME`].
pub(crate) fn printable(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(MAX_NAME)];
    let text = String::from_utf8_lossy(bytes);
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect::<String>()
        .trim()
        .to_owned()
}
