//! The critical path of the recorded command: the causes of its duration.

use ferretto_why::{Cause, Explanation, Piece, WaitKind};
use rustc_hash::FxHashMap;

use crate::context::Context;
use crate::feature::{CALLS, FAULTS, Feature, KERNEL, Kind, RAN, WAITED_FOR_CPU};
use crate::values::Values;

/// The numbers that tell the features of a piece. There are many pieces of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    thread: u32,
    cause: Cause,
    /// The callstack, of causes whose part is a function.
    callsite: Option<u32>,
    /// The wait of another thread that it explains: the thread and the kind.
    via: Option<(u32, WaitKind)>,
}

impl Key {
    fn new(piece: &Piece, explanation: &Explanation) -> Self {
        let wait = |wait: u32| &explanation.waits[wait as usize];
        let mut via = piece.wait.map(wait);
        if let Some(own) = via
            && own.wait.thread == piece.thread
        {
            via = own.wait.parent.map(wait);
        }
        let has_function = matches!(piece.cause, Cause::User | Cause::Running | Cause::Kernel);
        Self {
            thread: piece.thread,
            cause: piece.cause,
            callsite: piece.callsite.filter(|_| has_function),
            via: via.map(|wait| (wait.wait.thread, wait.kind)),
        }
    }

    /// Returns the cause in words, and the part of it.
    fn words(&self, context: &Context<'_>) -> Option<(String, String)> {
        let why = &context.why;
        let strings = context.trace.strings();
        let function = || {
            let functions = self.callsite.map(|callsite| why.functions(callsite));
            let function = functions.into_iter().flatten().next();
            function.map_or(String::new(), |function| function.name)
        };
        let (name, detail) = match self.cause {
            Cause::User | Cause::Running => (RAN, function()),
            Cause::Call(name) => {
                let name = strings.text(name);
                (CALLS, name.strip_prefix("sys_").unwrap_or(name).to_owned())
            }
            Cause::Calls | Cause::Entry => (CALLS, String::new()),
            Cause::PageFault => (FAULTS, String::new()),
            Cause::Kernel => (KERNEL, function()),
            Cause::Interrupt(name) => ("was interrupted", strings.text(name).to_owned()),
            Cause::Behind(other) => (
                WAITED_FOR_CPU,
                format!("{} had it", context.thread_name(other)),
            ),
            Cause::Wakeup => (WAITED_FOR_CPU, "idle, waking up".to_owned()),
            Cause::Idle(_) => (
                WAITED_FOR_CPU,
                "idle, as with a limit of CPU time".to_owned(),
            ),
            Cause::Cpu => (WAITED_FOR_CPU, String::new()),
            Cause::Wait(kind, _) => {
                return Some((format!("waited for {}", kind.phrase()), String::new()));
            }
            Cause::Absent | Cause::Lost | Cause::TooDeep => return None,
        };
        Some((name.to_owned(), detail))
    }
}

/// Returns for each wait of the command if it waited for the programs that record it, however
/// indirectly.
fn waits_of_recorders(context: &Context<'_>, explanation: &Explanation) -> Vec<bool> {
    let mut are: Vec<bool> = Vec::with_capacity(explanation.waits.len());
    for wait in &explanation.waits {
        // Those above a wait precede it.
        let above = wait.wait.parent.and_then(|above| are.get(above as usize));
        are.push(above == Some(&true) || context.is_of_recorder(wait.wait.thread));
    }
    are
}

/// Adds the time of the pieces by their key, without those of programs that record.
fn add_times(context: &Context<'_>, explanation: &Explanation, times: &mut FxHashMap<Key, i64>) {
    let of_recorders = waits_of_recorders(context, explanation);
    for piece in &explanation.pieces {
        let is_of_recorder = piece.wait.is_some_and(|wait| of_recorders[wait as usize])
            || context.is_of_recorder(piece.thread);
        if !is_of_recorder {
            *times.entry(Key::new(piece, explanation)).or_default() += piece.end - piece.start;
        }
    }
}

/// Returns the time of the critical path by its key. It is explained in parts: all pieces of a long
/// recording take as much memory as its tables. A time has the same cause in each interval.
fn times(context: &Context<'_>, command: u32) -> FxHashMap<Key, i64> {
    const PARTS: i64 = 64;
    let (start, end) = (context.range.start, context.range.end);
    let length = end.saturating_sub(start).max(0) / PARTS + 1;
    let mut times = FxHashMap::default();
    let mut at = start;
    while at < end {
        let until = at.saturating_add(length).min(end);
        let explanation = context.why.explain(command, at..until);
        add_times(context, &explanation, &mut times);
        at = until;
    }
    times
}

/// Times of the critical path of a command, in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PathTimes {
    /// The time in which it waited for a CPU that another program had.
    pub(crate) behind_others: f64,
    /// The time of which nothing is known, as switches of threads are missing.
    pub(crate) lost: f64,
}

/// Reads the critical path of the command.
pub(crate) fn read(context: &Context<'_>, values: &mut Values) -> PathTimes {
    let Some(command) = context.command else {
        return PathTimes::default();
    };
    let process = context.process_of(command);
    let duration = (context.range.end - context.range.start).max(0);
    values.add(
        Feature::of_process(Kind::Duration, &process),
        duration as f64,
    );
    // The waits of others that a feature explains, with the time.
    let mut vias: FxHashMap<Feature, FxHashMap<String, i64>> = FxHashMap::default();
    let (mut behind_others, mut lost) = (0, 0);
    for (key, time) in times(context, command) {
        if matches!(key.cause, Cause::Behind(other) if !context.has_thread(other)) {
            behind_others += time;
        }
        if key.cause == Cause::Lost {
            lost += time;
        }
        let Some((name, detail)) = key.words(context) else {
            continue;
        };
        let feature = Feature::of_process(Kind::Path, &context.process_of(key.thread))
            .thread(&context.thread_name(key.thread))
            .name(&name);
        let via = key.via.map_or(String::new(), |(thread, kind)| {
            format!(
                "{} waited for {}",
                context.thread_name(thread),
                kind.phrase()
            )
        });
        let detailed = (!detail.is_empty()).then(|| feature.clone().detail(&detail));
        for feature in [Some(feature), detailed].into_iter().flatten() {
            let times = vias.entry(feature.clone()).or_default();
            *times.entry(via.clone()).or_default() += time;
            values.add(feature, time as f64);
        }
    }
    for (feature, times) in vias {
        let most = times
            .into_iter()
            .max_by(|a, b| (a.1, &b.0).cmp(&(b.1, &a.0)));
        if let (Some((via, _)), Some(value)) = (most, values.entry(feature)) {
            value.via = via;
        }
    }
    PathTimes {
        behind_others: behind_others as f64,
        lost: lost as f64,
    }
}
