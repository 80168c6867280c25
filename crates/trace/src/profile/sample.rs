//! Decoding of samples in both formats.

use ferretto_format::CpuMode;
use ferretto_proto::fields::stack_sample::{execution_context, task_context};
use ferretto_proto::fields::{inline_callstack, interned_data, perf_sample, stack_sample};
use ferretto_wire::Fields;

use super::interned::Interned;
use super::problem::{Problem, Problems};
use super::session::{Event, Session, SessionId, described};
use super::tables::{Frame, FrameId, FrameKind, StackId, Tables};
use super::unwind::{SkipReason, UnwindError};

/// The maximum number of frames of an inline callstack. Others are left out.
const MAX_DEPTH: usize = 1 << 13;

/// One sample.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sample {
    /// The timestamp, in nanoseconds of the host's boot time.
    pub time: u64,
    /// The session of the profiler.
    pub session: SessionId,
    /// The machine; 0 is the machine of the tracing service.
    pub machine: u32,
    /// The CPU.
    pub cpu: Option<u32>,
    /// The process.
    pub pid: Option<i32>,
    /// The thread.
    pub tid: Option<i32>,
    /// The mode of the CPU.
    pub mode: CpuMode,
    /// The weight in units of the session's event, such as nanoseconds, if known.
    pub weight: Option<u64>,
    /// The number of samples that it represents: one, except in an aggregated profile.
    pub times: u64,
    /// The weights of the session's followers, in their order; empty if unknown.
    pub followers: Vec<u64>,
    /// Its callstack.
    pub stack: Option<StackId>,
    /// The reason for an incomplete callstack.
    pub truncated: Option<UnwindError>,
    /// The reason for a missing callstack.
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
            mode: CpuMode::Unknown,
            weight: None,
            times: 1,
            followers: Vec::new(),
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
            (None, Some(_)) => {
                self.samples += 1;
                self.unweighted += u64::from(sample.weight.is_none());
            }
            (None, None) => self.without_stack += 1,
        }
    }
}

/// The context for decoding a sample.
pub(super) struct Context<'a> {
    pub(super) interned: &'a mut Interned,
    pub(super) tables: &'a mut Tables,
    pub(super) problems: &'a mut Problems,
    pub(super) session: &'a mut Session,
}

/// Reads a `PerfSample`. Returns `None` if it contains no sample; other content updates the
/// session.
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
            perf_sample::CPU_MODE => sample.mode = CpuMode::of_perf_sample(number),
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
    // Samples of polled counters have no process.
    sample.pid?;
    sample.stack = stack.and_then(|iid| {
        context
            .interned
            .stack(iid, context.tables, context.problems)
    });
    Some(sample)
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
                // An unknown descriptor leaves the sample without a weight.
                event = Some(found.map(described).unwrap_or_default());
            }
            stack_sample::PRIMARY_WEIGHT => weight = Some(number()),
            stack_sample::FOLLOWER_WEIGHTS => {
                let left = context.session.followers.len();
                let left = left.saturating_sub(sample.followers.len());
                sample.followers.extend(field.as_varints().take(left));
            }
            _ => {}
        }
    }
    sample.weight = weigh(weight, event, sample.cpu, context.session);
    if let Some(weight) = sample.weight
        && context.session.is_added_up()
    {
        sample.times = weight;
    }
    sample
}

/// Returns the weight if its event is known from the sample or the defaults, and, for a per-CPU
/// counter, its CPU.
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
        // The first event becomes the event of the session.
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
            execution_context::MODE => sample.mode = CpuMode::of_stack_sample(number),
            _ => {}
        }
    }
}

/// Reads an `InlineCallstack`.
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
