//! The critical path of the recorded command: the causes of its duration.

use ferretto_why::{Cause, Explanation, Piece};
use rustc_hash::FxHashMap;

use crate::context::Context;
use crate::feature::{CALLS, FAULTS, Feature, KERNEL, Kind, RAN, WAITED_FOR_CPU};
use crate::values::Values;

/// The cause of a piece in words, and the part of it.
fn words(context: &Context<'_>, piece: &Piece) -> Option<(String, String)> {
    let why = &context.why;
    let strings = context.trace.strings();
    let function = || {
        let functions = piece.callsite.map(|callsite| why.functions(callsite));
        let function = functions.into_iter().flatten().next();
        function.map_or(String::new(), |function| function.name)
    };
    let (name, detail) = match piece.cause {
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
        Cause::Cpu => (WAITED_FOR_CPU, String::new()),
        Cause::Wait(kind, _) => {
            return Some((format!("waited for {}", kind.phrase()), String::new()));
        }
        Cause::Absent | Cause::Lost | Cause::TooDeep => return None,
    };
    Some((name.to_owned(), detail))
}

/// Returns true if the command waited for the programs that record it, however indirectly.
fn is_of_recorder(context: &Context<'_>, piece: &Piece, explanation: &Explanation) -> bool {
    let above = |wait: u32| explanation.waits[wait as usize].wait.parent;
    let mut waits = std::iter::successors(piece.wait, |wait| above(*wait));
    context.is_of_recorder(piece.thread)
        || waits.any(|wait| context.is_of_recorder(explanation.waits[wait as usize].wait.thread))
}

/// Reads the critical path of the command.
pub(crate) fn read(context: &Context<'_>, values: &mut Values) {
    let Some(command) = context.command else {
        return;
    };
    let explanation = context.why.explain(command, context.range.clone());
    let process = context.process_of(command);
    let duration = (context.range.end - context.range.start).max(0);
    values.add(
        Feature::of_process(Kind::Duration, &process),
        duration as f64,
    );
    // The waits of others that a feature explains, with the time.
    let mut vias: FxHashMap<Feature, FxHashMap<String, i64>> = FxHashMap::default();
    for piece in &explanation.pieces {
        let Some((name, detail)) = words(context, piece) else {
            continue;
        };
        if is_of_recorder(context, piece, &explanation) {
            continue;
        }
        let time = piece.end - piece.start;
        let feature = Feature::of_process(Kind::Path, &context.process_of(piece.thread))
            .thread(&context.thread_name(piece.thread))
            .name(&name);
        let mut wait = piece.wait.map(|wait| &explanation.waits[wait as usize]);
        if let Some(own) = wait
            && own.wait.thread == piece.thread
        {
            wait = own
                .wait
                .parent
                .map(|wait| &explanation.waits[wait as usize]);
        }
        let via = wait.map_or(String::new(), |wait| {
            let thread = context.thread_name(wait.wait.thread);
            format!("{thread} waited for {}", wait.kind.phrase())
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
}
