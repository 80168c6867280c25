//! One sample, in either format.

use ferretto_proto::fields::stack_sample::{execution_context, task_context};
use ferretto_proto::fields::{inline_callstack, interned_data, perf_sample, stack_sample};
use ferretto_wire::Fields;

use super::interned::Interned;
use super::problem::{Problem, Problems};
use super::session::{Event, Session, SessionId, described};
use super::tables::{Frame, FrameId, FrameKind, StackId, Tables};
use super::unwind::{SkipReason, UnwindError};

/// Frames of a callstack that is written out beyond this number are left out.
const MAX_DEPTH: usize = 1 << 13;

/// The mode of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// It is not said.
    #[default]
    Unknown,
    /// Running the kernel.
    Kernel,
    /// Running a program.
    User,
    /// Running a hypervisor.
    Hypervisor,
    /// Running the kernel of a virtual machine.
    GuestKernel,
    /// Running a program in a virtual machine.
    GuestUser,
}

/// One sample.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sample {
    /// When, in nanoseconds of boot time.
    pub time: u64,
    /// By which profiler.
    pub session: SessionId,
    /// The machine; 0 is the one of the tracing service.
    pub machine: u32,
    /// On which CPU.
    pub cpu: Option<u32>,
    /// The process.
    pub pid: Option<i32>,
    /// The thread.
    pub tid: Option<i32>,
    /// The mode of the CPU.
    pub mode: Mode,
    /// The amount of the session's event that it stands for, such as nanoseconds, if known.
    pub weight: Option<u64>,
    /// The number of samples that it stands for: one, but in a profile that was added up before.
    pub times: u64,
    /// Its callstack.
    pub stack: Option<StackId>,
    /// Why the callstack does not reach the outermost function.
    pub truncated: Option<UnwindError>,
    /// Why there is no callstack.
    pub skipped: Option<SkipReason>,
}

impl Sample {
    fn empty() -> Self {
        Self {
            time: 0,
            session: SessionId(0),
            machine: 0,
            cpu: None,
            pid: None,
            tid: None,
            mode: Mode::Unknown,
            weight: None,
            times: 1,
            stack: None,
            truncated: None,
            skipped: None,
        }
    }
}

impl Session {
    /// Counts a sample.
    pub(super) fn describe(&mut self, sample: &Sample) {
        match (sample.skipped, sample.stack) {
            (Some(reason), _) => *self.skipped.entry(reason).or_default() += 1,
            (None, Some(_)) => self.samples += 1,
            (None, None) => self.without_stack += 1,
        }
    }
}

/// The tables that a sample is read by.
pub(super) struct Context<'a> {
    pub(super) interned: &'a mut Interned,
    pub(super) tables: &'a mut Tables,
    pub(super) problems: &'a mut Problems,
    pub(super) session: &'a mut Session,
}

/// Reads a `PerfSample`; `None` if it tells of something else, which the session then knows.
pub(super) fn perf_sample(bytes: &[u8], context: &mut Context<'_>) -> Option<Sample> {
    let mut sample = Sample::empty();
    let (mut count, mut stack, mut event) = (None, None, None);
    let mut lost = 0;
    for field in Fields::new(bytes).map_while(Result::ok) {
        let number = field.as_u64().unwrap_or(0);
        match field.number {
            perf_sample::CPU => sample.cpu = Some(number as u32),
            perf_sample::PID => sample.pid = Some(number as i32),
            perf_sample::TID => sample.tid = Some(number as i32),
            perf_sample::CPU_MODE => sample.mode = perf_mode(number),
            perf_sample::TIMEBASE_COUNT => count = Some(number),
            perf_sample::CALLSTACK_IID => stack = Some(number),
            perf_sample::UNWIND_ERROR => sample.truncated = UnwindError::from_number(number),
            perf_sample::KERNEL_RECORDS_LOST => lost = number,
            perf_sample::SAMPLE_SKIPPED_REASON => {
                sample.skipped = Some(SkipReason::from_number(number));
            }
            perf_sample::PRODUCER_EVENT => event = field.as_bytes(),
            _ => {}
        }
    }
    let session = &mut *context.session;
    if lost > 0 {
        session.kernel_lost = session.kernel_lost.saturating_add(lost);
        return None;
    }
    if let Some(event) = event {
        let reason = Fields::find(perf_sample::producer_event::SOURCE_STOP_REASON, event);
        session.is_stopped_by_guardrail |= reason.and_then(|r| r.as_u64()) == Some(1);
        return None;
    }
    if let (Some(cpu), Some(count)) = (sample.cpu, count) {
        sample.weight = Some(session.count(cpu, count));
    }
    // Polled counters have no process.
    sample.pid?;
    sample.stack = stack.and_then(|iid| {
        context
            .interned
            .stack(iid, context.tables, context.problems)
    });
    Some(sample)
}

fn perf_mode(number: u64) -> Mode {
    match number {
        1 => Mode::Kernel,
        2 => Mode::User,
        3 => Mode::Hypervisor,
        4 => Mode::GuestKernel,
        5 => Mode::GuestUser,
        _ => Mode::Unknown,
    }
}

/// Reads a `StackSample`.
pub(super) fn stack_sample(bytes: &[u8], context: &mut Context<'_>) -> Sample {
    let mut sample = Sample::empty();
    let (mut weight, mut event) = (None, None);
    for field in Fields::new(bytes).map_while(Result::ok) {
        let number = || field.as_u64().unwrap_or(0);
        let bytes = || field.as_bytes().unwrap_or_default();
        match field.number {
            stack_sample::TASK_CONTEXT => task(bytes(), &mut sample),
            stack_sample::TASK_CONTEXT_IID => {
                let table = interned_data::STACK_SAMPLE_TASK_CONTEXTS;
                let found = context.interned.context(table, number(), context.problems);
                if let Some(bytes) = found {
                    task(bytes, &mut sample);
                }
            }
            stack_sample::EXECUTION_CONTEXT => execution(bytes(), &mut sample),
            stack_sample::EXECUTION_CONTEXT_IID => {
                let table = interned_data::STACK_SAMPLE_EXECUTION_CONTEXTS;
                let found = context.interned.context(table, number(), context.problems);
                if let Some(bytes) = found {
                    execution(bytes, &mut sample);
                }
            }
            stack_sample::CALLSTACK => sample.stack = inline_stack(bytes(), context),
            stack_sample::CALLSTACK_IID => {
                let iid = number();
                sample.stack = context
                    .interned
                    .stack(iid, context.tables, context.problems);
            }
            stack_sample::UNWIND_ERROR => sample.truncated = UnwindError::from_name(bytes()),
            stack_sample::UNWIND_ERROR_IID => sample.truncated = Some(UnwindError::UNKNOWN),
            stack_sample::PRIMARY_DESCRIPTOR => event = Some(described(bytes())),
            stack_sample::PRIMARY_DESCRIPTOR_IID => {
                let table = interned_data::STACK_SAMPLE_COUNTER_DESCRIPTORS;
                let found = context.interned.context(table, number(), context.problems);
                // One that is not known leaves the sample without a value.
                event = Some(found.map(described).unwrap_or_default());
            }
            stack_sample::PRIMARY_WEIGHT => weight = Some(number()),
            _ => {}
        }
    }
    sample.weight = weigh(weight, event, sample.cpu, context.session);
    if let Some(weight) = sample.weight
        && context.session.is_added_up()
        && context.session.event.unit == "count"
    {
        sample.times = weight;
    }
    sample
}

/// A weight is meaningful if the sample or the defaults name its event, and, for a counter of each
/// CPU, its CPU.
fn weigh(
    weight: Option<u64>,
    event: Option<Event>,
    cpu: Option<u32>,
    session: &mut Session,
) -> Option<u64> {
    let counted = event.as_ref().unwrap_or(&session.event);
    let is_known = *counted != Event::default();
    let weight = weight.filter(|_| is_known && (cpu.is_some() || !counted.is_per_cpu));
    if let Some(event) = event.filter(|_| session.event == Event::default()) {
        // The first one names the session.
        session.event = event;
    }
    weight
}

fn task(bytes: &[u8], sample: &mut Sample) {
    for field in Fields::new(bytes).map_while(Result::ok) {
        let number = field.as_u64().unwrap_or(0) as i32;
        match field.number {
            task_context::PID => sample.pid = Some(number),
            task_context::TID => sample.tid = Some(number),
            _ => {}
        }
    }
}

fn execution(bytes: &[u8], sample: &mut Sample) {
    for field in Fields::new(bytes).map_while(Result::ok) {
        let number = field.as_u64().unwrap_or(0);
        match field.number {
            execution_context::CPU => sample.cpu = Some(number as u32),
            execution_context::MODE => {
                sample.mode = match number {
                    1 => Mode::User,
                    2 => Mode::Kernel,
                    3 => Mode::Hypervisor,
                    4 => Mode::GuestUser,
                    5 => Mode::GuestKernel,
                    _ => Mode::Unknown,
                };
            }
            _ => {}
        }
    }
}

/// An `InlineCallstack`.
fn inline_stack(bytes: &[u8], context: &mut Context<'_>) -> Option<StackId> {
    let mut frames: Vec<FrameId> = Vec::new();
    let parts = Fields::new(bytes).map_while(Result::ok);
    for part in parts
        .filter(|part| part.number == inline_callstack::FRAMES)
        .take(MAX_DEPTH)
    {
        let mut frame = Frame {
            function: None,
            mapping: None,
            rel_pc: 0,
            source: None,
            line: 0,
            kind: FrameKind::Unknown,
        };
        for field in Fields::new(part.as_bytes().unwrap_or_default()).map_while(Result::ok) {
            let text = field.as_bytes().filter(|text| !text.is_empty());
            let mut text = || text.map(|text| context.tables.text(text));
            match field.number {
                inline_callstack::frame::FUNCTION_NAME => frame.function = text(),
                inline_callstack::frame::SOURCE_FILE => frame.source = text(),
                inline_callstack::frame::LINE_NUMBER => frame.line = field.as_u32().unwrap_or(0),
                _ => {}
            }
        }
        frames.extend(context.tables.add_frame(frame));
    }
    if frames.is_empty() {
        context.problems.add(Problem::EmptyCallstack);
        return None;
    }
    context.tables.add_stack(&frames)
}
