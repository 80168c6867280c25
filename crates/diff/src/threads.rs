//! The numbers of threads by name.

use ferretto_why::StateKind;

use crate::context::Context;
use crate::feature::{Feature, Kind};
use crate::values::Values;

/// Counts the threads that ran.
pub(crate) fn read(context: &Context<'_>, values: &mut Values) {
    let schedule = context.why.schedule();
    for thread in 0..schedule.threads() {
        if !context.has_thread(thread) || context.why.is_kernel_thread(thread) {
            continue;
        }
        let is_within =
            |start: i64, end: i64| start < context.range.end && end > context.range.start;
        let mut states = schedule.states(thread).iter();
        if states.any(|state| state.kind == StateKind::Running && is_within(state.start, state.end))
        {
            let of_process = Feature::of_process(Kind::Threads, &context.process_of(thread));
            values.add(of_process.thread(&context.thread_name(thread)), 1.0);
        }
    }
}
