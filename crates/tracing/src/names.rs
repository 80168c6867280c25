//! Field names with a special meaning.

use ferretto::{CounterTrack, Flow, Unit};

/// The meaning of a field name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Special {
    /// No special meaning: an argument.
    None,
    /// The message of an event.
    Message,
    /// The value of a counter.
    Counter(CounterTrack<'static>),
    /// The id of a flow in a scope; true if the flow ends.
    Flow(&'static str, bool),
}

/// Returns the meaning of a field name.
pub(crate) fn special(name: &'static str) -> Special {
    match name.as_bytes().first() {
        Some(b'm') if name == "message" => Special::Message,
        Some(b'c') => name.strip_prefix("counter.").map_or(Special::None, counter),
        Some(b'f') => name.strip_prefix("flow").map_or(Special::None, flow),
        _ => Special::None,
    }
}

fn counter(name: &'static str) -> Special {
    let units = [
        (".bytes", Unit::Bytes),
        (".ns", Unit::Nanoseconds),
        (".count", Unit::Count),
    ];
    let unit = units
        .into_iter()
        .find_map(|(suffix, unit)| Some((name.strip_suffix(suffix)?, unit)));
    Special::Counter(match unit {
        Some((name, unit)) => CounterTrack::new(name).unit(unit),
        None => CounterTrack::new(name),
    })
}

fn flow(rest: &'static str) -> Special {
    let (scope, ends) = match rest.strip_suffix(".end") {
        Some(scope) => (scope, true),
        None => (rest, false),
    };
    if scope.is_empty() {
        return Special::Flow("", ends);
    }
    match scope.strip_prefix('.') {
        Some(scope) => Special::Flow(scope, ends),
        None => Special::None,
    }
}

/// Returns the flow with an id in a scope.
pub(crate) fn flow_of(scope: &'static str, id: u64) -> Flow {
    match scope {
        "" => Flow::process(id),
        _ => Flow::process(id).named(scope),
    }
}
