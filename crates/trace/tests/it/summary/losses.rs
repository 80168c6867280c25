//! Summaries of losses between producers and the file.

use ferretto_trace::summary::Cause;

use crate::summary::made::{Trace, find};

#[test]
fn an_overwritten_buffer_is_reported_with_the_needed_size() {
    let summary = Trace::recording(0, 1, |stats| {
        stats.nested(1, |buffer| {
            buffer.varint(12, 4096 * 1024);
            buffer.varint(1, 6000 * 1024);
            buffer.varint(13, 1904 * 1024);
            buffer.varint(3, 500);
        });
    })
    .summary();
    let loss = find(&summary.losses, Cause::Overwritten);
    assert_eq!(loss.source, "buffer 0 \"main\"");
    assert_eq!(
        loss.amount,
        "1.9 MiB in 500 chunks overwritten before they were read"
    );
    assert!(
        loss.advice
            .contains("buffers[0].size_kb (now 4096) to 6000"),
        "{}",
        loss.advice
    );
}

#[test]
fn an_explicit_ring_keeps_the_newest_data() {
    let raise = "raise buffers[0].size_kb";
    for (policy, is_streamed, name, cause, advice) in [
        (1, false, "", Cause::Ring, raise),
        // Created by a flag: there is no config to change.
        (1, false, "ferretto-ring-17", Cause::Ring, "give --ring a"),
        (0, false, "", Cause::Overwritten, raise),
        (
            1,
            true,
            "",
            Cause::Overwritten,
            "lower file_write_period_ms",
        ),
    ] {
        let trace = Trace::default().packet(|p| {
            p.nested(33, |config| {
                config.nested(1, |buffer| {
                    buffer.varint(1, 4096);
                    buffer.varint(4, policy);
                });
                config.varint(8, is_streamed.into());
                config.bytes(22, name.as_bytes());
            });
        });
        let trace = trace.packet(|p| {
            p.nested(35, |stats| {
                stats.nested(1, |buffer| {
                    buffer.varint(13, 2 << 20);
                    buffer.varint(3, 500);
                });
            });
        });
        let loss = find(&trace.summary().losses, cause).clone();
        if cause == Cause::Ring {
            assert_eq!(
                loss.amount,
                "2.0 MiB of older data made room for newer, as in a ring"
            );
        }
        assert!(loss.advice.starts_with(advice), "{}", loss.advice);
    }
}

#[test]
fn rejected_chunks_were_late_or_the_buffer_was_full() {
    for (policy, cause) in [(1, Cause::Late), (2, Cause::BufferFull)] {
        let trace = Trace::default().packet(|p| {
            p.nested(33, |config| {
                config.nested(1, |buffer| {
                    buffer.varint(1, 4096);
                    buffer.varint(4, policy);
                });
            });
        });
        let trace = trace.packet(|p| {
            p.nested(35, |stats| {
                stats.nested(1, |buffer| buffer.varint(18, 3));
            });
        });
        let summary = trace.summary();
        let loss = find(&summary.losses, cause);
        assert_eq!(loss.amount, "3 chunks discarded");
    }
}

#[test]
fn shared_memory_loss_names_the_producer() {
    let summary = Trace::recording(0, 1, |stats| {
        stats.nested(1, |buffer| buffer.varint(19, 2));
        stats.nested(18, |writer| {
            writer.varint(1, 5);
            writer.varint(4, 0);
        });
    })
    .packet(|p| {
        p.nested(2, |tree| {
            tree.nested(1, |process| {
                process.varint(1, 31);
                process.string(3, "app");
            });
        });
    })
    .packet(|p| {
        p.nested(11, |event| event.varint(9, 1));
        p.varint(10, 5);
        p.varint(79, 31);
    })
    .packet(|p| {
        p.nested(11, |event| event.varint(9, 2));
        p.varint(10, 5);
        p.varint(79, 31);
        p.varint(42, 257);
    })
    .summary();
    let loss = find(&summary.losses, Cause::SharedMemory);
    assert_eq!(loss.source, "app (pid 31) [track_event], buffer 0 \"main\"");
    assert_eq!(loss.amount, "1 gap");
    assert!(loss.advice.contains("shm_size_kb"));
    assert_eq!(summary.losses.len(), 1);
}

#[test]
fn a_program_that_was_recorded_late_has_not_filled_its_memory() {
    let trace = Trace::recording(0, 1, |stats| stats.nested(1, |b| b.varint(19, 1)));
    let summary = trace
        .packet(|p| {
            p.varint(87, 1);
            p.varint(42, 129);
            p.varint(10, 5);
            p.varint(42, 1);
        })
        .packet(|p| {
            p.varint(87, 1);
            p.varint(10, 6);
        })
        .packet(|p| {
            p.varint(42, 129);
            p.varint(10, 6);
        })
        .summary();
    let loss = find(&summary.losses, Cause::LateStart);
    assert_eq!(loss.amount, "1 gap");
    assert!(loss.advice.contains("Options::wait"));
    assert_eq!(find(&summary.losses, Cause::SharedMemory).amount, "1 gap");
    assert_eq!(summary.losses.len(), 2);
}

#[test]
fn the_services_mark_on_a_first_packet_does_not_hide_its_writers_loss() {
    let trace = Trace::recording(0, 1, |stats| stats.nested(1, |b| b.varint(3, 0)));
    let summary = trace
        .packet(|p| {
            p.varint(87, 1);
            p.varint(42, 257);
            p.varint(10, 5);
            p.varint(42, 1);
        })
        .summary();
    assert_eq!(find(&summary.losses, Cause::SharedMemory).amount, "1 gap");
}

#[test]
fn a_loss_flag_alone_is_not_a_loss_if_the_statistics_have_none() {
    let flagged = |trace: Trace| {
        trace
            .packet(|p| {
                p.varint(10, 5);
                p.varint(42, 1);
            })
            .packet(|p| {
                p.varint(10, 5);
                p.varint(42, 1);
            })
    };
    let counted = flagged(Trace::recording(0, 1, |stats| {
        stats.nested(1, |b| b.varint(3, 0))
    }));
    assert_eq!(counted.summary().losses, []);
    let uncounted = flagged(Trace::default()).summary();
    assert_eq!(find(&uncounted.losses, Cause::Unknown).amount, "1 gap");
}

#[test]
fn a_failed_final_flush_names_the_slow_source() {
    let summary = Trace::recording(0, 1, |stats| {
        stats.varint(14, 1);
        stats.varint(15, 2);
    })
    .packet(|p| {
        p.varint(8, 5);
        p.nested(69, |event| {
            event.nested(8, |slow| {
                slow.nested(1, |source| {
                    source.string(1, "my-app");
                    source.string(2, "track_event");
                });
            });
        });
    })
    .summary();
    let loss = find(&summary.losses, Cause::Flush);
    assert_eq!(loss.source, "track_event of my-app");
    assert!(loss.advice.contains("flush_timeout_ms (now 5000, or 2000"));
}

#[test]
fn programs_that_could_not_connect_are_a_loss() {
    let trace = Trace::recording(0, 1, |stats| {
        stats.varint(ferretto_format::TURNED_AWAY, 2);
    });
    let summary = trace.summary();
    let loss = find(&summary.losses, Cause::NotConnected);
    assert_eq!(loss.amount, "2 connections failed; programs may be missing");
    assert_eq!(summary.losses.len(), 1);
}
