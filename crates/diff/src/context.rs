//! The trace of a recording, and the part of it that is compared.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::ops::Range;

use ferretto_tables::Trace;
use ferretto_why::{StateKind, Why, is_launcher};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::values::WINDOWS;

/// A trace while its features are read.
pub(crate) struct Context<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) why: Why<'a>,
    /// The compared time.
    pub(crate) range: Range<i64>,
    /// The first thread of the recorded command.
    pub(crate) command: Option<u32>,
    /// By process: set if it is compared.
    processes: Vec<bool>,
    /// By thread: set if it is compared.
    threads: Vec<bool>,
    /// By process: set if it belongs to the recorded command, or if there is none.
    own: Vec<bool>,
    /// By thread: set if it belongs to a program that records.
    recorders: Vec<bool>,
    /// The ends of the windows.
    window_ends: [i64; WINDOWS],
    /// By thread: its name, once it is known.
    names: Vec<OnceCell<String>>,
    /// By process that began while it was recorded: its first thread.
    first_threads: FxHashMap<u32, u32>,
}

impl<'a> Context<'a> {
    /// Prepares a trace. Without a range, the time of the recorded command is compared, or all if
    /// there is none.
    pub(crate) fn new(why: Why<'a>, range: Option<Range<i64>>) -> Self {
        let trace = why.trace();
        let tables = trace.tables();
        let threads = 0..tables.thread.len().min(why.schedule().threads());
        let is_command = |thread: &u32| {
            why.is_command(*thread)
                && !is_launcher(why.thread_name(*thread))
                && !why.schedule().states(*thread).is_empty()
        };
        let sampled = sampled(trace);
        // Another recording of the same machine has a command, too, of which this one has no
        // callstacks.
        let command = threads.filter(is_command).max_by_key(|thread| {
            let lifetime = why.lifetime(*thread);
            let process = tables.thread.upid().get(*thread);
            let is_sampled = process.is_some_and(|process| sampled.contains(&process));
            (is_sampled, lifetime.end - lifetime.start)
        });
        let bounds = &tables.trace_bounds;
        let all = bounds.start_ts().get(0)..bounds.end_ts().get(0);
        let all_start = all.start;
        let root = command.and_then(|thread| tables.thread.upid().get(thread));
        let own: Vec<bool> = (0..tables.process.len())
            .map(|process| match root {
                Some(root) => descends(trace, process, root),
                None => true,
            })
            .collect();
        // In a range, the machine is compared.
        let command = command.filter(|_| range.is_none());
        let root = root.filter(|_| range.is_none());
        let of_command = command.map(|thread| why.lifetime(thread));
        let range = range.or(of_command).unwrap_or(all);
        let processes = match command {
            Some(_) => own.clone(),
            None => vec![true; own.len()],
        };
        let began = |process: u32| {
            let start = tables.process.start_ts().get(process);
            Some(process) != root && start.is_some_and(|start| start > all_start)
        };
        let first_threads = (0..tables.thread.len())
            .filter(|thread| tables.thread.is_main_thread().get(*thread) == Some(true))
            .filter_map(|thread| Some((tables.thread.upid().get(thread)?, thread)))
            .filter(|(process, _)| began(*process))
            .collect();
        let threads = 0..tables.thread.len();
        let recorders: Vec<bool> = threads
            .clone()
            .map(|thread| why.is_recorder(thread))
            .collect();
        let threads = threads.map(|thread| {
            let process = tables.thread.upid().get(thread);
            let has_process = match process {
                Some(process) => processes.get(process as usize) == Some(&true),
                None => command.is_none(),
            };
            // Before a command runs its program, it has the name of the recorder.
            let is_compared = command.is_some() || !recorders[thread as usize];
            has_process && is_compared && !tables.thread.is_idle().get(thread)
        });
        Self {
            trace,
            window_ends: window_ends(&range),
            names: vec![OnceCell::new(); tables.thread.len() as usize],
            range,
            command,
            threads: threads.collect(),
            recorders,
            why,
            processes,
            own,
            first_threads,
        }
    }

    /// Returns true if a process is compared.
    pub(crate) fn has_process(&self, process: u32) -> bool {
        self.processes.get(process as usize) == Some(&true)
    }

    /// Returns true if a thread is compared.
    pub(crate) fn has_thread(&self, thread: u32) -> bool {
        self.threads.get(thread as usize) == Some(&true)
    }

    /// Returns true if waits of a thread are compared. Those of the kernel's threads, and of
    /// programs beside the recorded command, are for work that is theirs.
    pub(crate) fn has_waits(&self, thread: u32) -> bool {
        let process = self.trace.tables().thread.upid().get(thread);
        let is_own = |process: u32| self.own.get(process as usize) == Some(&true);
        process.is_none_or(is_own) && !self.why.is_kernel_thread(thread)
    }

    /// Returns true if a thread belongs to a program that records.
    pub(crate) fn is_recorder(&self, thread: u32) -> bool {
        self.recorders.get(thread as usize) == Some(&true)
    }

    /// Returns true if a thread is one of the programs that record the command.
    pub(crate) fn is_of_recorder(&self, thread: u32) -> bool {
        // Before the command runs its program, it has the name of the recorder.
        let process = |thread| self.trace.tables().thread.upid().get(thread);
        let of_command = self.command.and_then(process);
        self.is_recorder(thread) && process(thread) != of_command
    }

    /// Returns the name of a process.
    pub(crate) fn process_name(&self, process: u32) -> String {
        let tables = self.trace.tables();
        let strings = self.trace.strings();
        // A process that begins and ends soon has the name of its program, or that of its parent:
        // it depends on when the recorder saw it. Its thread has the last one that it gave itself.
        let own = self.first_threads.get(&process);
        let own = own.map(|thread| self.why.thread_name(*thread));
        let own = own.filter(|name| !name.is_empty() && !is_launcher(name));
        if let Some(own) = own {
            return common_name(own);
        }
        let name = strings.text(tables.process.name().get(process));
        let name = name.rsplit('/').next().unwrap_or(name);
        // If the event is missing with which the command got its name, its thread may have it.
        let thread = self.command.filter(|_| is_launcher(name));
        let thread = thread.filter(|thread| tables.thread.upid().get(*thread) == Some(process));
        let of_thread = thread.map(|thread| self.why.thread_name(thread));
        common_name(of_thread.unwrap_or(name))
    }

    /// Returns the names of the compared processes.
    pub(crate) fn process_names(&self) -> BTreeSet<String> {
        let all = 0..self.processes.len() as u32;
        let compared = all.filter(|process| self.has_process(*process));
        compared.map(|process| self.process_name(process)).collect()
    }

    /// Returns the name of the process of a thread.
    pub(crate) fn process_of(&self, thread: u32) -> String {
        let process = self.trace.tables().thread.upid().get(thread);
        match process {
            Some(_) if self.why.is_kernel_thread(thread) => "kernel".to_owned(),
            Some(process) => self.process_name(process),
            None => String::new(),
        }
    }

    /// Returns the name of a thread.
    pub(crate) fn thread_name(&self, thread: u32) -> String {
        match self.names.get(thread as usize) {
            Some(name) => name.get_or_init(|| self.new_thread_name(thread)).clone(),
            None => self.new_thread_name(thread),
        }
    }

    fn new_thread_name(&self, thread: u32) -> String {
        let name = self.why.thread_name(thread);
        if self.why.is_kernel_thread(thread) {
            // Threads of the kernel that do the same have numbers.
            let end = name.find([':', '/']).unwrap_or(name.len());
            return common_name(&name[..end]);
        }
        let process = self.process_of(thread);
        let is_main = self.trace.tables().thread.is_main_thread().get(thread) == Some(true);
        if is_launcher(name) && self.command.is_some() || is_main && common_name(name) == process {
            return process;
        }
        common_thread_name(name)
    }

    /// Returns the parts of an interval within the compared time, by window.
    pub(crate) fn windows(&self, start: i64, end: i64, mut each: impl FnMut(usize, i64)) {
        let (start, end) = (start.max(self.range.start), end.min(self.range.end));
        let mut at = start;
        while at < end {
            let window = self.window(at);
            let until = self.window_ends[window].clamp(at + 1, end);
            each(window, until - at);
            at = until;
        }
    }

    /// Returns the window of a time.
    pub(crate) fn window(&self, time: i64) -> usize {
        self.window_ends[..WINDOWS - 1].partition_point(|end| *end <= time)
    }

    /// Returns the share of the time that threads were ready in which they had no CPU.
    pub(crate) fn busyness(&self) -> f64 {
        let (mut running, mut ready) = (0.0, 0.0);
        for thread in (0..self.why.schedule().threads()).filter(|thread| self.has_thread(*thread)) {
            for state in self.why.schedule().states(thread) {
                let start = state.start.max(self.range.start);
                let time = (state.end.min(self.range.end) - start).max(0) as f64;
                match state.kind {
                    StateKind::Running => running += time,
                    StateKind::Runnable => ready += time,
                    _ => {}
                }
            }
        }
        if ready > 0.0 {
            ready / (running + ready)
        } else {
            0.0
        }
    }
}

/// Returns the ends of the windows of a range: the first times that belong to the next ones.
fn window_ends(range: &Range<i64>) -> [i64; WINDOWS] {
    let length = i128::from(range.end) - i128::from(range.start);
    std::array::from_fn(|window| {
        let before = length.max(1) * (window as i128 + 1);
        let end = i128::from(range.start) + (before + WINDOWS as i128 - 1) / WINDOWS as i128;
        i64::try_from(end).unwrap_or(i64::MAX)
    })
}

/// Returns the processes of which the trace has callstacks.
fn sampled(trace: &Trace) -> FxHashSet<u32> {
    let tables = trace.tables();
    let contexts = &tables.profiler_task_context;
    let threads = (0..contexts.len()).filter_map(|row| contexts.utid().get(row));
    threads
        .filter_map(|thread| tables.thread.upid().get(thread))
        .collect()
}

/// Returns true if a process is another one or descends from it.
fn descends(trace: &Trace, process: u32, root: u32) -> bool {
    const MAX_DEPTH: usize = 64;
    let parents = trace.tables().process.parent_upid();
    let mut next = Some(process);
    for _ in 0..MAX_DEPTH {
        match next {
            Some(process) if process == root => return true,
            Some(process) if process < trace.tables().process.len() => next = parents.get(process),
            _ => return false,
        }
    }
    false
}

/// Returns a name without long numbers, such as those of processes, which differ each time.
pub(crate) fn common_name(name: &str) -> String {
    const LONG: usize = 4;
    without_numbers(name, |_, digits, _| digits.len() >= LONG)
}

/// Returns the name of a thread without numbers: threads that do the same have one each, such as
/// `pool-3-thread-7`. Those within words stay, such as that of `av:h264:df`.
pub(crate) fn common_thread_name(name: &str) -> String {
    without_numbers(name, |before, digits, after| {
        let is_apart = !before.ends_with(|c: char| c.is_alphanumeric());
        let is_last = after.is_empty() && !before.is_empty();
        digits.len() >= 4 || is_apart || is_last
    })
}

/// Returns a name with an `N` in place of numbers. `is_left_out` gets the texts before, of and
/// after each.
fn without_numbers(name: &str, is_left_out: impl Fn(&str, &str, &str) -> bool) -> String {
    let mut common = String::with_capacity(name.len());
    let mut at = 0;
    while let Some(first) = name[at..].find(|c: char| c.is_ascii_digit()) {
        let first = at + first;
        let count = name[first..].find(|c: char| !c.is_ascii_digit());
        let end = count.map_or(name.len(), |count| first + count);
        common.push_str(&name[at..first]);
        let digits = &name[first..end];
        let is_left_out = is_left_out(&name[..first], digits, &name[end..]);
        common.push_str(if is_left_out { "N" } else { digits });
        at = end;
    }
    common + &name[at..]
}
