//! The track events of a trace as text that does not depend on ids, times and processes.

use std::collections::BTreeMap;

use ferretto_trace::events::{Event, Tracks, read_events};

/// Returns one line for each event, sorted by time.
///
/// # Panics
///
/// If the trace has problems.
pub(crate) fn lines(trace: &[u8]) -> Vec<String> {
    let mut read = read_events(trace).expect("the trace can be read");
    assert!(read.problems.is_empty(), "{:?}", read.problems);
    read.events.sort_by_key(|event| event.time);
    let mut flows = BTreeMap::new();
    let line = |event: &Event| line(event, &read.tracks, &mut flows);
    read.events.iter().map(line).collect()
}

fn line(event: &Event, tracks: &Tracks, flows: &mut BTreeMap<u64, usize>) -> String {
    // Numbers flows in the order of their first use.
    let mut flow = |id: &u64| {
        let next = flows.len();
        *flows.entry(*id).or_insert(next)
    };
    let joined: Vec<_> = event.flows.iter().map(&mut flow).collect();
    let ended: Vec<_> = event.ending_flows.iter().map(&mut flow).collect();
    format!(
        "{}: {:?} {:?} {:?} {:?} = {:?}, flows {joined:?} {ended:?}, with {:?}",
        tracks.path(event.track),
        event.kind,
        event.categories,
        event.name,
        event.arguments,
        event.value,
        event.correlation,
    )
}
