//! Conversion of packet times on other clocks.

use crate::summary::made::{Packet, Trace, seconds};

const BOOTTIME: u64 = 6;
const MONOTONIC: u64 = 3;
/// A sequence-scoped clock.
const SEQUENCE: u64 = 64;

/// Adds a clock snapshot: ids, times, and true for incremental clocks.
fn snapshot(p: &mut Packet<'_>, primary: u64, clocks: &[(u64, u64, bool)]) {
    p.nested(6, |snapshot| {
        for &(id, at, is_incremental) in clocks {
            snapshot.nested(1, |clock| {
                clock.varint(1, id);
                clock.varint(2, at);
                clock.bool(3, is_incremental);
            });
        }
        snapshot.varint(2, primary);
    });
}

/// Adds an instant on a sequence.
fn event(p: &mut Packet<'_>) {
    p.varint(10, 2);
    p.nested(11, |event| event.varint(9, 3));
}

/// Creates a trace with a clock snapshot.
fn with_clocks(primary: u64) -> Trace {
    let clocks = [
        (BOOTTIME, seconds(1000), false),
        (MONOTONIC, seconds(10), false),
    ];
    Trace::default().packet(|p| snapshot(p, primary, &clocks))
}

#[test]
fn monotonic_timestamps_are_converted_by_the_clock_snapshot() {
    let summary = with_clocks(BOOTTIME)
        .packet(|p| {
            p.varint(8, seconds(1000));
            event(p);
        })
        .packet(|p| {
            p.varint(8, seconds(12));
            p.varint(58, MONOTONIC);
            event(p);
        })
        .packet(|p| {
            // A sequence-scoped clock cannot be converted without a snapshot.
            p.varint(8, 5);
            p.varint(58, SEQUENCE);
            event(p);
        })
        .summary();
    assert_eq!(summary.duration_ns, Some(seconds(2)));
}

#[test]
fn packets_without_a_clock_are_on_the_primary_one() {
    let summary = with_clocks(MONOTONIC)
        .packet(|p| {
            p.varint(8, seconds(1000));
            p.varint(58, BOOTTIME);
            event(p);
        })
        .packet(|p| {
            // A packet without a sequence.
            p.varint(8, seconds(12));
            p.nested(38, |stats| stats.varint(1, 1));
        })
        .packet(|p| {
            p.varint(8, seconds(13));
            event(p);
        })
        .summary();
    assert_eq!(summary.duration_ns, Some(seconds(3)));
}

#[test]
fn times_on_sequence_scoped_clocks_are_converted() {
    let event = |p: &mut Packet<'_>, difference| {
        p.varint(8, difference);
        p.varint(10, 2);
        p.varint(13, 2);
        p.nested(11, |event| event.varint(9, 3));
    };
    let summary = with_clocks(BOOTTIME)
        .packet(|p| {
            p.varint(10, 2);
            p.varint(13, 1);
            p.nested(59, |defaults| defaults.varint(58, SEQUENCE));
            let clocks = [(BOOTTIME, seconds(1000), false), (SEQUENCE, 0, true)];
            snapshot(p, BOOTTIME, &clocks);
        })
        .packet(|p| event(p, seconds(1)))
        .packet(|p| event(p, seconds(2)))
        .packet(|p| event(p, seconds(4)))
        .summary();
    assert_eq!(summary.duration_ns, Some(seconds(6)));
}
