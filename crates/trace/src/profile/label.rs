//! Callstacks as rows of labels, for folded lines and the boxes of flamegraphs.

use std::sync::Arc;

use super::Profile;
use super::counts::StackKey;
use super::function::{Function, FunctionId, Origin};
use super::tables::{FrameId, StackId};

/// The labels before the functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum By {
    /// The name of the program; processes of one program are added up.
    #[default]
    Program,
    /// The program with its process id.
    Process,
    /// The program with its process id, and the thread with its own.
    Thread,
    /// Nothing.
    Function,
}

/// The kind of thing a label names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LabelKind {
    /// A program, a process or a thread.
    Task,
    /// A function of a program or library.
    User,
    /// A function that the compiler put into its caller.
    Inlined,
    /// A function of the kernel.
    Kernel,
    /// A function compiled at run time.
    Jit,
    /// A place that no name is known of.
    Unknown,
    /// The end of a callstack that could not be followed further out.
    Truncated,
}

/// One entry of a callstack as people read it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label {
    /// The name of the function, program, process or thread.
    pub name: Arc<str>,
    /// File name of the program or library, `[kernel]`, or empty.
    pub module: Arc<str>,
    /// The kind of thing it names.
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

    /// The label of a function.
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

/// The functions by which the kernel switches to another thread. A thread waits in the caller of
/// these.
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

/// Returns true if a function of the kernel is a part of switching to another thread.
pub fn switches_threads(function: &str) -> bool {
    // Compilers add suffixes to the names of parts that they split off, as in
    // `finish_task_switch.isra.0`.
    let name = function.split('.').next().unwrap_or_default();
    SWITCHING.contains(&name)
}

impl Profile {
    /// The labels before the functions of a callstack. Of a process with several heaps the heap is
    /// the last.
    pub(super) fn task_labels(&self, key: &StackKey, by: By) -> Vec<Label> {
        let session = self.session(key.session);
        if key.pid == 0 && session.is_some_and(|session| session.is_added_up()) {
            return Vec::new();
        }
        let process = || {
            let program = self.program(key.machine, key.pid);
            Label::task(&format!("{program} [{}]", key.pid))
        };
        let mut labels = match by {
            By::Program => vec![Label::task(&self.program(key.machine, key.pid))],
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

    /// The frames of a callstack, the outermost first. One of waiting ends with the function that
    /// waited, without the functions by which the kernel's scheduler then switched to another
    /// thread.
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
        // A thread of which nothing else is known keeps those.
        waits.map_or(frames, |waits| &frames[..=waits])
    }

    fn is_switching(&self, id: FunctionId) -> bool {
        self.function(id).is_some_and(|function| {
            function.origin == Origin::Kernel && switches_threads(&function.name)
        })
    }

    /// The name of the program that a process runs, without folder and arguments.
    pub fn program(&self, machine: u32, pid: i32) -> String {
        match self.process_name(machine, pid) {
            Some(name) => program(name).to_owned(),
            None if pid == 0 => "[idle]".to_owned(),
            None => format!("pid {pid}"),
        }
    }
}

/// `/usr/bin/cc -c x.c` is `cc`; kernel threads such as `kworker/0:1` keep their names.
fn program(command_line: &str) -> &str {
    let first = command_line.split(' ').next().unwrap_or_default();
    let name = match first.starts_with(['/', '.']) {
        true => first.rsplit('/').next().unwrap_or_default(),
        false => first,
    };
    match (name, first) {
        ("", "") => command_line,
        ("", first) => first,
        (name, _) => name,
    }
}
