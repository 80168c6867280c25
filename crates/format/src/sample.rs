//! Reading of samples of profilers in both encodings.

use ferretto_proto::fields::interned_data;
use ferretto_proto::views::perf_sample::ProducerEventView;
use ferretto_proto::views::perf_sample::producer_event::data_source_stop_reason::PROFILER_STOP_GUARDRAIL;
use ferretto_proto::views::stack_sample::{ExecutionContextView, TaskContextView, unit};
use ferretto_proto::views::{PerfSampleView, StackSampleView, frame::kind};

/// The maximum number of frames of a valid callstack. Readers of samples leave longer interned
/// callstacks out, and count them; others are cut. Profilers write at most half as many.
pub const MAX_FRAMES: usize = 2048;

/// The content of a `PerfSample`.
#[derive(Debug, Clone, Copy)]
pub enum PerfSample<'a> {
    /// A sample.
    Sample(PerfSampleView<'a>),
    /// The number of records that the kernel could not write.
    Lost(u64),
    /// The end of the profile before that of the recording.
    Stopped {
        /// True if the profiler exceeded its limits.
        is_guardrail: bool,
    },
}

impl<'a> PerfSample<'a> {
    /// Reads a `PerfSample`.
    #[inline]
    pub fn read(bytes: &'a [u8]) -> Self {
        let sample = PerfSampleView::read(bytes);
        if let Some(lost) = sample.kernel_records_lost.filter(|lost| *lost > 0) {
            return Self::Lost(lost);
        }
        match sample.producer_event {
            None => Self::Sample(sample),
            Some(event) => {
                let reason = ProducerEventView::read(event).source_stop_reason;
                let is_guardrail = reason == Some(PROFILER_STOP_GUARDRAIL);
                Self::Stopped { is_guardrail }
            }
        }
    }
}

/// The callstack of a [`StackSample`].
#[derive(Debug, Clone, Copy)]
pub enum SampleStack<'a> {
    /// The iid of an interned callstack.
    Interned(u64),
    /// An encoded `InlineCallstack`.
    Inline(&'a [u8]),
}

/// A `StackSample` whose contexts are looked up in the interned data of its sequence.
#[derive(Debug, Clone, Copy)]
pub struct StackSample<'a, 'i> {
    /// The other fields.
    pub fields: StackSampleView<'a>,
    /// The process and thread.
    pub task: Option<TaskContextView<'i>>,
    /// The CPU and its mode.
    pub execution: Option<ExecutionContextView<'i>>,
    /// The callstack.
    pub stack: Option<SampleStack<'a>>,
    /// True if it names its event, which otherwise is that of the defaults.
    pub has_event: bool,
    /// The encoded `CounterDescriptor` of its event, if it is known.
    pub event: Option<&'i [u8]>,
}

impl<'a: 'i, 'i> StackSample<'a, 'i> {
    /// Reads a `StackSample`. `interned` returns an encoded entry of a table of `InternedData`.
    pub fn read(bytes: &'a [u8], mut interned: impl FnMut(u32, u64) -> Option<&'i [u8]>) -> Self {
        let fields = StackSampleView::read(bytes);
        let mut find =
            |own: Option<&'i [u8]>, table, iid: Option<u64>| own.or_else(|| interned(table, iid?));
        let task = find(
            fields.task_context,
            interned_data::STACK_SAMPLE_TASK_CONTEXTS,
            fields.task_context_iid,
        );
        let execution = find(
            fields.execution_context,
            interned_data::STACK_SAMPLE_EXECUTION_CONTEXTS,
            fields.execution_context_iid,
        );
        let event = find(
            fields.primary_descriptor,
            interned_data::STACK_SAMPLE_COUNTER_DESCRIPTORS,
            fields.primary_descriptor_iid,
        );
        let interned = fields.callstack_iid.map(SampleStack::Interned);
        Self {
            fields,
            task: task.map(TaskContextView::read),
            execution: execution.map(ExecutionContextView::read),
            stack: interned.or(fields.callstack.map(SampleStack::Inline)),
            has_event: fields.primary_descriptor.is_some()
                || fields.primary_descriptor_iid.is_some(),
            event,
        }
    }
}

/// Returns the name of a `StackSample.Unit`; `None` if it is unspecified or unknown.
pub fn unit_name(unit: i32) -> Option<&'static str> {
    Some(match unit {
        unit::UNIT_NANOSECONDS => "ns",
        unit::UNIT_CPU_CYCLES => "cycles",
        unit::UNIT_INSTRUCTIONS => "instructions",
        unit::UNIT_BYTES => "bytes",
        unit::UNIT_PAGE_FAULTS => "page-faults",
        unit::UNIT_CACHE_MISSES => "cache-misses",
        unit::UNIT_CACHE_REFERENCES => "cache-references",
        unit::UNIT_BRANCH_MISSES => "branch-misses",
        unit::UNIT_COUNT => "count",
        _ => return None,
    })
}

/// The kind of a frame's code, according to its writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum FrameKind {
    /// Unknown.
    #[default]
    Unknown,
    /// Native code.
    Native,
    /// The kernel.
    Kernel,
    /// Interpreted code.
    Interpreted,
    /// JIT-compiled code.
    Jit,
    /// A garbage collector.
    GarbageCollector,
    /// The runtime of a language.
    Runtime,
}

impl FrameKind {
    /// The kinds with their numbers in `Frame.Kind` and their names.
    const ALL: [(Self, i32, &'static str); 6] = [
        (Self::Native, kind::KIND_NATIVE, "native"),
        (Self::Kernel, kind::KIND_KERNEL, "kernel"),
        (Self::Interpreted, kind::KIND_INTERPRETED, "interpreted"),
        (Self::Jit, kind::KIND_JIT, "jit"),
        (Self::GarbageCollector, kind::KIND_GC, "gc"),
        (Self::Runtime, kind::KIND_RUNTIME, "runtime"),
    ];

    /// Returns the kind with a number in `Frame.Kind`.
    pub fn from_number(number: i32) -> Self {
        let found = Self::ALL.iter().find(|(_, known, _)| *known == number);
        found.map_or(Self::Unknown, |(kind, ..)| *kind)
    }

    /// Returns the kind with a name.
    pub fn from_name(name: &[u8]) -> Self {
        let found = Self::ALL
            .iter()
            .find(|(.., known)| known.as_bytes() == name);
        found.map_or(Self::Unknown, |(kind, ..)| *kind)
    }

    /// Returns the name; `None` if the kind is unknown.
    pub fn name(self) -> Option<&'static str> {
        let found = Self::ALL.iter().find(|(kind, ..)| *kind == self);
        found.map(|(.., name)| *name)
    }
}

/// The maximum length of a mapping's path in bytes. Its parts are interned, so that a small trace
/// can have long ones.
const MAX_PATH: usize = 1 << 14;

/// The maximum number of parts of a mapping's path.
const MAX_PARTS: usize = 1 << 10;

/// The path of a mapping.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MappingPath {
    /// The path, as far as it is known: an incomplete one is better than none.
    pub path: Vec<u8>,
    /// True if a part is not in the trace.
    pub lacks_part: bool,
    /// True if it is cut because it is too long.
    pub is_cut: bool,
}

/// Joins the parts of the path of a mapping; `None` is a part that is not in the trace. A path in
/// one part may have its own slash.
pub fn mapping_path<'a>(parts: impl IntoIterator<Item = Option<&'a [u8]>>) -> MappingPath {
    let mut joined = MappingPath::default();
    for (index, part) in parts.into_iter().enumerate() {
        let Some(part) = part else {
            joined.lacks_part = true;
            break;
        };
        if index >= MAX_PARTS || joined.path.len() + part.len() >= MAX_PATH {
            joined.is_cut = true;
            break;
        }
        joined.path.push(b'/');
        joined.path.extend_from_slice(part);
    }
    if joined.path.starts_with(b"//") {
        joined.path.remove(0);
    }
    joined
}
