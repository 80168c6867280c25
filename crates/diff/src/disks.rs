//! Requests to disks by process and disk: their number, bytes and time.

use crate::context::Context;
use crate::feature::{Feature, Kind};
use crate::values::Values;

/// Reads the requests.
pub(crate) fn read(context: &Context<'_>, values: &mut Values) {
    for request in context.trace.disk_requests() {
        if !context.range.contains(&request.ts) {
            continue;
        }
        let process = match request.thread {
            Some(thread) if context.has_thread(thread) => context.process_of(thread),
            None if context.command.is_none() => String::new(),
            _ => continue,
        };
        let name = context.trace.strings().text(request.name);
        let of = |kind| Feature::of_process(kind, &process).name(name);
        values.add(of(Kind::Requests), 1.0);
        values.add(of(Kind::RequestBytes), request.bytes as f64);
        values.add(of(Kind::RequestTime), request.dur as f64);
    }
}
