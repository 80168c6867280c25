//! Splitting a trace into consecutive parts.

use ferretto_edit::{Every, Splitter, Window, extent};
use ferretto_tables::{Options, Trace};
use ferretto_testing::content::{check_upstream, content_of, differences, errors};
use ferretto_trace::Limits;
use ferretto_trace::TraceReader;
use ferretto_wire::encode;

use crate::recording::{SECOND, recording};

/// Splits a trace, and returns the parts.
pub(crate) fn split(trace: &[u8], every: Every) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    let mut splitter = Splitter::new(every, Limits::default(), |number, before| {
        parts.extend(before);
        assert_eq!(number as usize, parts.len());
        Ok(Vec::new())
    });
    TraceReader::new(trace)
        .read_all(|packet| splitter.add_names(packet.bytes))
        .unwrap();
    TraceReader::new(trace)
        .read_all(|packet| splitter.add(packet.bytes).unwrap())
        .unwrap();
    let (last, count) = splitter.finish().unwrap().unwrap();
    parts.push(last);
    assert_eq!(parts.len(), count as usize);
    parts
}

/// Returns a packet of a sequence with one field.
fn packet(sequence: u32, second: u64, field: u32, body: &[u8]) -> Vec<u8> {
    encode(|trace| {
        trace.nested(1, |packet| {
            packet.varint(8, second * SECOND);
            packet.varint(10, sequence.into());
            packet.bytes(field, body);
        });
    })
}

/// Returns a track event of a program.
fn instant(second: u64) -> Vec<u8> {
    packet(2, second, 11, &encode(|event| event.varint(9, 3)))
}

#[test]
fn late_names_of_processes_are_in_their_part() {
    let tree = |pid: u64, name: &str| {
        encode(|tree| {
            tree.nested(1, |process| {
                process.varint(1, pid);
                process.string(3, name);
            });
        })
    };
    let trace = [
        instant(1),
        instant(6),
        // The service writes between its reads of the producers.
        packet(1, 6, 6, &[]),
        packet(3, 2, 2, &tree(42, "late")),
        packet(3, 7, 2, &tree(43, "later")),
        instant(8),
    ]
    .concat();
    let parts = split(&trace, Every::Nanoseconds(4 * SECOND));
    let pids = |part: &[u8]| {
        let trace = Trace::read(part, &Options::default()).unwrap();
        let processes = &trace.tables().process;
        let pids = (0..processes.len()).map(|row| processes.pid().get(row));
        let mut pids: Vec<_> = pids.filter(|pid| *pid != 0).collect();
        pids.sort_unstable();
        pids
    };
    assert_eq!(parts.len(), 2);
    assert_eq!(pids(&parts[0]), [42]);
    assert_eq!(pids(&parts[1]), [42, 43]);
}

#[test]
fn a_part_ends_after_the_data_of_a_flush() {
    let flushed = encode(|event| event.varint(3, 1));
    let is_divided = |event: &[u8]| {
        let trace = [
            instant(1),
            packet(1, 4, 69, event),
            instant(5),
            packet(1, 5, 6, &[]),
            instant(5),
        ];
        split(&trace.concat(), Every::Nanoseconds(4 * SECOND)).len() == 2
    };
    assert!(is_divided(&flushed));
    assert!(!is_divided(&[]), "a flush may follow");
}

#[test]
fn parts_contain_all_packets_and_can_be_opened_on_their_own() {
    let whole = recording(70);
    let count = |bytes: &[u8], query: &dyn Fn(&Trace) -> usize| {
        query(&Trace::read(bytes, &Options::default()).unwrap())
    };
    // Slices that begin in a part, without repeated ones.
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
            let bounds = extent(&part[..], Limits::default()).unwrap();
            let duration = summary.duration_ns.unwrap();
            // The initial state may have timestamps some seconds before.
            let length = bounds.to - bounds.from;
            assert!(
                length.abs_diff(duration) < 6 * SECOND,
                "{duration} {length}"
            );
        }
        let of = |query: &dyn Fn(&Trace) -> usize| -> usize {
            parts.iter().map(|part| count(part, query)).sum()
        };
        let at_starts = parts.len() - 1;
        assert!(of(&new_slices) - count(&whole, &new_slices) <= 2 * at_starts);
        assert_eq!(of(&measured), count(&whole, &measured) + at_starts);
        // The middle of the second part has the same content as the whole.
        let bounds = extent(&parts[1][..], Limits::default()).unwrap();
        let from = bounds.from.midpoint(bounds.to);
        let window = Window {
            from,
            to: from + SECOND,
        };
        assert_eq!(
            differences(&content_of(&whole, window), &content_of(&parts[1], window)),
            ""
        );
    }
}
