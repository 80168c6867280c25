//! Time on CPUs by process, thread and function, and waits of threads.

use ferretto_why::{State, StateKind, WaitKind};
use rustc_hash::FxHashMap;

use crate::context::Context;
use crate::feature::{Feature, Kind, WAITED_FOR_CPU};
use crate::values::{Values, WINDOWS};

/// Reads the times of threads.
pub(crate) fn read(context: &Context<'_>, values: &mut Values) {
    let schedule = context.why.schedule();
    let mut running: FxHashMap<u32, i64> = FxHashMap::default();
    for thread in (0..schedule.threads()).filter(|thread| context.has_thread(*thread)) {
        let process = context.process_of(thread);
        let of_process = Feature::of_process(Kind::Cpu, &process);
        let of_thread = of_process.clone().thread(&context.thread_name(thread));
        let mut parts = [0_i64; WINDOWS];
        let mut waits = FxHashMap::default();
        let has_waits = context.command.is_none() && context.has_waits(thread);
        for state in schedule.states(thread) {
            if state.kind == StateKind::Running {
                context.windows(state.start, state.end, |window, time| parts[window] += time);
            } else if has_waits {
                wait(context, thread, state, &mut waits);
            }
        }
        for (wait, parts) in waits {
            let feature = Feature {
                kind: Kind::Wait,
                ..of_thread.clone()
            };
            values.add_parts(feature.name(&wait.words(context)), &parts);
        }
        let sum: i64 = parts.iter().sum();
        if sum > 0 {
            running.insert(thread, sum);
            values.add_parts(of_process, &parts);
            values.add_parts(of_thread, &parts);
        }
    }
    functions(context, &running, values);
}

/// The cause of waits of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum WaitCause {
    /// It had no CPU.
    Cpu,
    /// It waited for something of this kind, until this thread woke it.
    For(WaitKind, Option<u32>),
}

impl WaitCause {
    fn words(self, context: &Context<'_>) -> String {
        match self {
            Self::Cpu => WAITED_FOR_CPU.to_owned(),
            Self::For(kind, None) => format!("waited for {}", kind.phrase()),
            Self::For(kind, Some(waker)) => {
                let waker = context.thread_name(waker);
                format!("waited for {}, until woken by {waker}", kind.phrase())
            }
        }
    }
}

/// Adds a wait of a thread.
fn wait(
    context: &Context<'_>,
    thread: u32,
    state: &State,
    waits: &mut FxHashMap<WaitCause, [i64; WINDOWS]>,
) {
    if state.end <= context.range.start || state.start >= context.range.end {
        return;
    }
    let cause = match state.kind {
        StateKind::Runnable => WaitCause::Cpu,
        StateKind::Blocked(_) => {
            let wait = context.why.wait_of(thread, state);
            let waker = wait.waker().filter(|waker| !context.is_recorder(*waker));
            WaitCause::For(wait.kind, waker)
        }
        _ => return,
    };
    let parts = waits.entry(cause).or_insert([0; WINDOWS]);
    context.windows(state.start, state.end, |window, time| parts[window] += time);
}

/// Adds the time of functions: that of their thread, divided by its samples.
fn functions(context: &Context<'_>, running: &FxHashMap<u32, i64>, values: &mut Values) {
    /// The time of a sample if switches of threads are not recorded.
    const SAMPLE: f64 = 1e6;
    let tables = context.trace.tables();
    let rows = &tables.profiler_sample;
    let off_cpu = context.trace.strings().find("linux.off_cpu");
    let mut samples: FxHashMap<(u32, u32), [u32; WINDOWS]> = FxHashMap::default();
    let mut counts: FxHashMap<u32, u32> = FxHashMap::default();
    for row in 0..rows.len() {
        let time = rows.ts().get(row);
        let task = rows.task_context_id().get(row);
        let thread = task.and_then(|task| tables.profiler_task_context.utid().get(task));
        let (Some(thread), Some(callsite)) = (thread, rows.callsite_id().get(row)) else {
            continue;
        };
        let is_wait = off_cpu.is_some_and(|source| rows.source().get(row) == source);
        if is_wait || !context.range.contains(&time) || !context.has_thread(thread) {
            continue;
        }
        samples.entry((thread, callsite)).or_default()[context.window(time)] += 1;
        *counts.entry(thread).or_default() += 1;
    }
    let mut names: FxHashMap<u32, String> = FxHashMap::default();
    for ((thread, callsite), parts) in samples {
        let function = names.entry(callsite).or_insert_with(|| {
            let functions = context.why.functions(callsite);
            functions
                .into_iter()
                .next()
                .map_or(String::new(), |function| function.name)
        });
        let count = counts.get(&thread).copied().unwrap_or(1).max(1);
        let of_sample = match running.get(&thread) {
            Some(time) => *time as f64 / f64::from(count),
            None => SAMPLE,
        };
        let parts = parts.map(|count| (f64::from(count) * of_sample) as i64);
        let of_thread = Feature::of_process(Kind::Cpu, &context.process_of(thread))
            .thread(&context.thread_name(thread));
        let total: i64 = parts.iter().sum();
        let feature = of_thread.detail(function);
        values.add_parts(feature.clone(), &parts);
        if let Some(value) = values.entry(feature) {
            value.sample_time = value.sample_time.max(of_sample);
            value.samples += (total as f64 / of_sample.max(1.0)).round();
        }
    }
}
