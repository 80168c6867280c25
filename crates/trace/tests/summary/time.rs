//! Times of packets on other clocks than that of kernel events.

use crate::made::{Packet, Trace, seconds};

#[test]
fn monotonic_timestamps_are_converted_by_the_clock_snapshot() {
    let summary = Trace::default()
        .packet(|p| {
            p.nested(6, |snapshot| {
                for (id, at) in [(6, seconds(1000)), (3, seconds(10))] {
                    snapshot.nested(1, |clock| {
                        clock.varint(1, id);
                        clock.varint(2, at);
                    });
                }
                snapshot.varint(2, 6);
            });
        })
        .packet(|p| p.varint(8, seconds(1000)))
        .packet(|p| {
            p.varint(8, seconds(12));
            p.varint(58, 3);
        })
        .packet(|p| {
            // A sequence-scoped clock says nothing without more context.
            p.varint(8, 5);
            p.varint(58, 64);
        })
        .summary();
    assert_eq!(summary.duration_ns, Some(seconds(2)));
}

#[test]
fn times_on_the_clocks_of_a_sequence_count() {
    let snapshot = |p: &mut Packet<'_>, clocks: &[(u64, u64, bool)]| {
        p.nested(6, |snapshot| {
            for &(id, at, is_incremental) in clocks {
                snapshot.nested(1, |clock| {
                    clock.varint(1, id);
                    clock.varint(2, at);
                    clock.bool(3, is_incremental);
                });
            }
        });
    };
    let event = |p: &mut Packet<'_>, difference| {
        p.varint(8, difference);
        p.varint(10, 2);
        p.varint(13, 2);
        p.nested(11, |event| event.varint(9, 3));
    };
    let summary = Trace::default()
        .packet(|p| {
            p.varint(10, 2);
            p.varint(13, 1);
            p.nested(59, |defaults| defaults.varint(58, 64));
            snapshot(p, &[(6, seconds(1000), false), (64, 0, true)]);
        })
        .packet(|p| event(p, seconds(1)))
        .packet(|p| event(p, seconds(2)))
        .packet(|p| event(p, seconds(4)))
        .summary();
    assert_eq!(summary.duration_ns, Some(seconds(6)));
}

#[test]
fn packets_that_name_no_clock_are_on_the_primary_one() {
    let summary = Trace::default()
        .packet(|p| {
            p.nested(6, |snapshot| {
                for (id, at) in [(6, seconds(1000)), (3, seconds(10))] {
                    snapshot.nested(1, |clock| {
                        clock.varint(1, id);
                        clock.varint(2, at);
                    });
                }
                snapshot.varint(2, 3);
            });
            p.varint(10, 1);
        })
        .packet(|p| {
            p.varint(8, seconds(1000));
            p.varint(58, 6);
        })
        .packet(|p| p.varint(8, seconds(12)))
        .packet(|p| {
            p.varint(8, seconds(13));
            p.varint(10, 2);
        })
        .summary();
    assert_eq!(summary.duration_ns, Some(seconds(3)));
}
