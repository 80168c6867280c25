//! Completeness of recordings at their end.

use ferretto_trace::summary::Cause;

use crate::summary::made::{Trace, compact, find, seconds};

#[test]
fn completeness_requires_statistics() {
    let with = Trace::recording(0, 1, |stats| stats.nested(1, |buffer| buffer.varint(1, 10)));
    assert!(with.summary().losses_known());
    assert_eq!(with.summary().losses, []);
    assert!(
        !Trace::default()
            .packet(|p| p.varint(8, 1))
            .summary()
            .losses_known()
    );
    // Losses of kernel events are unknown without the kernel's counters.
    let kernel = with.packet(|p| compact(p, 0, false, &[(0, 1, "x")]));
    assert!(!kernel.summary().losses_known());
}

#[test]
fn data_sources_that_left_before_the_end_are_named() {
    let recorded = |flush_failed: bool| {
        Trace::default()
            .packet(|p| {
                p.varint(8, seconds(2));
                p.nested(69, |event| {
                    event.nested(8, |sources| {
                        sources.nested(1, |source| {
                            source.string(1, "traced_perf");
                            source.string(2, "linux.perf");
                        });
                    });
                });
            })
            .packet(|p| {
                p.varint(8, seconds(2));
                p.nested(69, |event| event.bool(5, true));
            })
            .drained(|stats| stats.varint(15, if flush_failed { 2 } else { 1 }))
            .summary()
    };
    let gone = recorded(false);
    assert_eq!(gone.losses, []);
    assert!(
        gone.unknown[0].starts_with("linux.perf of traced_perf left before the recording ended"),
        "{gone:?}"
    );
    // If the service waited for it in vain, this is reported as a loss.
    let slow = recorded(true);
    assert_eq!(
        find(&slow.losses, Cause::Flush).source,
        "linux.perf of traced_perf"
    );
    assert!(slow.losses_known(), "{slow:?}");
}

#[test]
fn without_service_events_the_outcome_of_the_final_flush_marks_the_end() {
    let stats = |outcome| {
        Trace::default()
            .packet(|p| p.nested(35, |stats| stats.varint(15, outcome)))
            .summary()
    };
    assert!(stats(1).is_complete());
    assert!(!stats(0).is_complete());
}
