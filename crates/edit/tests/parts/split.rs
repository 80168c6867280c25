//! Parts of a trace one after the other.

use ferretto_edit::{Every, Splitter, Window, extent};
use ferretto_tables::{Options, Trace};
use ferretto_trace::TraceReader;

use crate::content::{check_upstream, differences, errors, said};
use crate::recording::{SECOND, recording};

/// Divides a trace, and returns the parts.
pub(crate) fn split(trace: &[u8], every: Every) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    let mut splitter = Splitter::new(every, |number, before| {
        parts.extend(before);
        assert_eq!(number as usize, parts.len());
        Ok(Vec::new())
    });
    TraceReader::new(trace)
        .read_all(|packet| splitter.add(packet.bytes).unwrap())
        .unwrap();
    let (last, count) = splitter.finish().unwrap().unwrap();
    parts.push(last);
    assert_eq!(parts.len(), count as usize);
    parts
}
#[test]
fn packets_of_parts_are_those_of_the_whole_and_each_part_opens_alone() {
    let whole = recording(70);
    let count = |bytes: &[u8], query: &dyn Fn(&Trace) -> usize| {
        query(&Trace::read(bytes, &Options::default()).unwrap())
    };
    // Slices that begin in a part, without those begun before.
    let new_slices = |trace: &Trace| {
        let slices = &trace.tables().slice;
        let names = (0..slices.len()).map(|row| trace.strings().text(slices.name().get(row)));
        names
            .filter(|name| matches!(*name, "request" | "parse"))
            .count()
    };
    let measured = |trace: &Trace| {
        let counters = &trace.tables().counter;
        let name = |row| {
            let track = counters.track_id().get(row);
            trace.strings().text(trace.tables().track.name().get(track))
        };
        (0..counters.len())
            .filter(|row| name(*row) == "bytes")
            .count()
    };
    for every in [
        Every::Nanoseconds(20 * SECOND),
        Every::Bytes(whole.len() as u64 / 3),
    ] {
        let parts = split(&whole, every);
        assert!((3..=4).contains(&parts.len()), "{}", parts.len());
        for part in &parts {
            assert_eq!(errors(part), [] as [&str; 0]);
            check_upstream(part);
            let summary = ferretto_trace::summarize(&part[..]).unwrap();
            let bounds = extent(&part[..]).unwrap();
            let told = summary.duration_ns.unwrap();
            // The state at its beginning may be of some seconds before.
            let length = bounds.to - bounds.from;
            assert!(length.abs_diff(told) < 6 * SECOND, "{told} {length}");
        }
        let of = |query: &dyn Fn(&Trace) -> usize| -> usize {
            parts.iter().map(|part| count(part, query)).sum()
        };
        let at_starts = parts.len() - 1;
        assert!(of(&new_slices) - count(&whole, &new_slices) <= 2 * at_starts);
        assert_eq!(of(&measured), count(&whole, &measured) + at_starts);
        // In the middle of the second part all is as in the whole.
        let bounds = extent(&parts[1][..]).unwrap();
        let from = bounds.from.midpoint(bounds.to);
        let window = Window {
            from,
            to: from + SECOND,
        };
        assert_eq!(
            differences(&said(&whole, window), &said(&parts[1], window)),
            ""
        );
    }
}
