//! Callstacks as sequences of labels, for folded lines and flamegraphs.

use std::sync::Arc;

use super::Profile;
use super::counts::StackKey;
use super::function::{Function, FunctionId, Origin};
use super::tables::{FrameId, StackId};

/// The labels before the functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum By {
    /// The name of the program; processes of one program are aggregated.
    #[default]
    Program,
    /// The name of the program with the process id.
    Process,
    /// The name of the program with the process id, and the name of the thread with the thread id.
    Thread,
    /// No label before the functions.
    Function,
}

/// The kind of a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LabelKind {
    /// A program, a process or a thread.
    Task,
    /// A function of a program or library.
    User,
    /// An inlined function.
    Inlined,
    /// A function of the kernel.
    Kernel,
    /// A JIT-compiled function.
    Jit,
    /// An address without a name.
    Unknown,
    /// A marker for an incomplete callstack.
    Truncated,
}

/// A label of a callstack.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label {
    /// The name of the function, program, process or thread.
    pub name: Arc<str>,
    /// The file name of the program or library, `[kernel]`, or empty.
    pub module: Arc<str>,
    /// The kind of the label.
    pub kind: LabelKind,
}

impl Label {
    fn task(name: &str) -> Self {
        Self {
            name: name.into(),
            module: "".into(),
            kind: LabelKind::Task,
        }
    }

    /// Creates the label of a function.
    pub(super) fn function(function: &Function, is_inlined: bool) -> Self {
        let kind = match function.origin {
            Origin::Kernel => LabelKind::Kernel,
            Origin::Jit => LabelKind::Jit,
            Origin::Truncated => LabelKind::Truncated,
            _ if is_inlined => LabelKind::Inlined,
            Origin::Unnamed | Origin::Unknown => LabelKind::Unknown,
            Origin::User => LabelKind::User,
        };
        Self {
            name: function.name.clone(),
            module: function.module.clone(),
            kind,
        }
    }
}

/// The functions with which the kernel switches to another thread. A waiting thread is in their
/// caller.
const SWITCHING: [&str; 18] = [
    "__traceiter_sched_switch",
    "perf_trace_sched_switch",
    "__perf_event_task_sched_out",
    "perf_event_task_sched_out",
    "prepare_task_switch",
    "finish_task_switch",
    "__schedule",
    "schedule",
    "schedule_preempt_disabled",
    "schedule_timeout",
    "schedule_hrtimeout_range",
    "schedule_hrtimeout_range_clock",
    "io_schedule",
    "io_schedule_timeout",
    "preempt_schedule",
    "preempt_schedule_common",
    "preempt_schedule_irq",
    "__cond_resched",
];

/// Returns true if a function of the kernel is part of switching to another thread.
pub fn switches_threads(function: &str) -> bool {
    // Compilers add suffixes to the names of parts that they split off, as in
    // `finish_task_switch.isra.0`.
    let name = function.split('.').next().unwrap_or_default();
    SWITCHING.contains(&name)
}

impl Profile {
    /// Returns the labels before the functions of a callstack. For a process with several heaps,
    /// the heap is the last label.
    pub(super) fn task_labels(&self, key: &StackKey, by: By) -> Vec<Label> {
        let session = self.session(key.session);
        if key.pid == 0 && session.is_some_and(|session| session.is_added_up()) {
            return Vec::new();
        }
        // Samples of idle CPUs have the thread 0, too.
        let is_unknown = key.pid == 0 && key.tid != 0;
        let program = || match self.thread_name(key.machine, key.tid) {
            Some(name) if is_unknown => name.to_owned(),
            None if is_unknown => format!("thread {}", key.tid),
            _ => self.program(key.machine, key.pid),
        };
        let process = || {
            let program = program();
            Label::task(&format!("{program} [{}]", key.pid))
        };
        let mut labels = match by {
            By::Program => vec![Label::task(&program())],
            By::Process => vec![process()],
            By::Thread => {
                let name = self.thread_name(key.machine, key.tid).unwrap_or("thread");
                vec![process(), Label::task(&format!("{name} [{}]", key.tid))]
            }
            By::Function => return Vec::new(),
        };
        let heap = key.heap.and_then(|heap| self.heap_name(heap));
        labels.extend(heap.map(Label::task));
        labels
    }

    /// Returns the frames of a callstack, the outermost first. An off-CPU callstack ends with the
    /// function that waited, without the functions with which the kernel's scheduler switched to
    /// another thread.
    pub(super) fn shown_stack(&self, stack: StackId, is_off_cpu: bool) -> &[FrameId] {
        let frames = self.stack(stack);
        if !is_off_cpu {
            return frames;
        }
        let is_switching = |frame: &FrameId| {
            let lines = self.location(*frame).map(|location| &location.lines);
            lines.is_some_and(|lines| lines.iter().all(|line| self.is_switching(line.function)))
        };
        let waits = frames.iter().rposition(|frame| !is_switching(frame));
        // A callstack that consists only of such functions keeps them.
        waits.map_or(frames, |waits| &frames[..=waits])
    }

    fn is_switching(&self, id: FunctionId) -> bool {
        self.function(id).is_some_and(|function| {
            function.origin == Origin::Kernel && switches_threads(&function.name)
        })
    }

    /// Returns the name of the program of a process, without folder and arguments.
    pub fn program(&self, machine: u32, pid: i32) -> String {
        match self.process_name(machine, pid) {
            Some(name) if self.threads.is_comm(machine, pid) => name.to_owned(),
            Some(name) => program(name).to_owned(),
            None if pid == 0 => "[idle]".to_owned(),
            None => format!("pid {pid}"),
        }
    }
}

/// Returns the program of a command line: `cc` for `/usr/bin/cc -c x.c`. Names of kernel threads,
/// such as `kworker/0:1`, are returned as they are.
fn program(command_line: &str) -> &str {
    let first = command_line.split(' ').next().unwrap_or_default();
    let name = if first.starts_with(['/', '.']) {
        first.rsplit('/').next().unwrap_or_default()
    } else {
        first
    };
    match (name, first) {
        ("", "") => command_line,
        ("", first) => first,
        (name, _) => name,
    }
}
