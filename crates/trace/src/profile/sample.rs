//! Decoding of samples in both formats.

use ferretto_format::CpuMode;
use ferretto_format::sample::{FrameKind, MAX_FRAMES, PerfSample, SampleStack, StackSample};
use ferretto_proto::views::InlineCallstackView;
use ferretto_proto::views::inline_callstack::FrameView;

use super::interned::Interned;
use super::problem::{Problem, Problems};
use super::session::{Event, Session, SessionId, described};
use super::tables::{Frame, FrameId, StackId, Tables};
use super::unwind::{SkipReason, UnwindError};

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
    let session = &mut *context.session;
    let fields = match PerfSample::read(bytes) {
        PerfSample::Sample(fields) => fields,
        PerfSample::Lost(lost) => {
            session.kernel_lost = session.kernel_lost.saturating_add(lost);
            return None;
        }
        PerfSample::Stopped { is_guardrail } => {
            session.is_stopped_by_guardrail |= is_guardrail;
            return None;
        }
    };
    let mut sample = Sample {
        cpu: fields.cpu,
        pid: fields.pid.map(u32::cast_signed),
        tid: fields.tid.map(u32::cast_signed),
        mode: CpuMode::of_perf_sample(fields.cpu_mode.unwrap_or(0)),
        truncated: fields.unwind_error.and_then(UnwindError::from_number),
        skipped: fields.sample_skipped_reason.map(SkipReason::from_number),
        ..Sample::empty()
    };
    if let (Some(cpu), Some(count)) = (sample.cpu, fields.timebase_count) {
        sample.weight = Some(session.count(cpu, count));
    }
    // Samples of polled counters have no process.
    sample.pid?;
    sample.stack = fields.callstack_iid.and_then(|iid| {
        context
            .interned
            .stack(iid, context.tables, context.problems)
    });
    Some(sample)
}

/// Reads a `StackSample`.
pub(super) fn stack_sample(bytes: &[u8], context: &mut Context<'_>) -> Sample {
    let mut sample = Sample::empty();
    let (interned, problems) = (&*context.interned, &mut *context.problems);
    let read = StackSample::read(bytes, |table, iid| interned.context(table, iid, problems));
    // An unknown descriptor leaves the sample without a weight.
    let event = read
        .has_event
        .then(|| read.event.map(described).unwrap_or_default());
    let (task, execution) = (read.task, read.execution);
    let StackSample { fields, stack, .. } = read;
    if let Some(task) = task {
        sample.pid = task.pid.map(u32::cast_signed);
        sample.tid = task.tid.map(u32::cast_signed);
    }
    if let Some(execution) = execution {
        sample.cpu = execution.cpu;
        sample.mode = CpuMode::of_stack_sample(execution.mode.unwrap_or(0));
    }
    sample.truncated = match (fields.unwind_error, fields.unwind_error_iid) {
        (Some(name), _) => UnwindError::from_name(name),
        (None, iid) => iid.map(|_| UnwindError::UNKNOWN),
    };
    let followers = fields.follower_weights.iter();
    sample.followers = followers.take(context.session.followers.len()).collect();
    sample.stack = match stack {
        Some(SampleStack::Interned(iid)) => {
            context
                .interned
                .stack(iid, context.tables, context.problems)
        }
        Some(SampleStack::Inline(bytes)) => inline_stack(bytes, context),
        None => None,
    };
    sample.weight = weigh(fields.primary_weight, event, sample.cpu, context.session);
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

/// Reads an `InlineCallstack`.
fn inline_stack(bytes: &[u8], context: &mut Context<'_>) -> Option<StackId> {
    let mut frames: Vec<FrameId> = Vec::new();
    let parts = InlineCallstackView::read(bytes).frames;
    for part in parts.iter().take(MAX_FRAMES) {
        let part = FrameView::read(part);
        let mut text = |text: Option<&[u8]>| {
            let text = text.filter(|text| !text.is_empty());
            text.map(|text| context.tables.text(text))
        };
        let frame = Frame {
            function: text(part.function_name),
            mapping: None,
            rel_pc: 0,
            source: text(part.source_file),
            line: part.line_number.unwrap_or(0),
            kind: FrameKind::Unknown,
        };
        frames.extend(context.tables.add_frame(frame));
    }
    if frames.is_empty() {
        context.problems.add(Problem::EmptyCallstack);
        return None;
    }
    context.tables.add_stack(&frames)
}
