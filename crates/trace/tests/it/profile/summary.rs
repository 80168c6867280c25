//! Callstack samples in the summary of a trace.

use ferretto_trace::profile::{FoldOptions, Value, folded};
use ferretto_trace::summary::{Cause, Loss};
use ferretto_trace::{Summary, summarize};

use crate::profile::made::{BOOT, CLEARED, SEQUENCE, Trace};

fn summary(trace: &Trace) -> Summary {
    summarize(&trace.0[..]).expect("it is a trace")
}

#[test]
fn functions_processes_and_incomplete_callstacks_are_summarized() {
    let trace = Trace::begun()
        .interned()
        .sample(50, 100, 10)
        .sample(80, 101, 11)
        .sample(100, 101, 12)
        .sample(110, 101, 12);
    let summary = summary(&trace);
    let [profile] = &summary.profiles[..] else {
        panic!("{summary:#?}")
    };
    assert_eq!(profile.total.samples, 4);
    assert_eq!(profile.event.name, "cpu-clock");
    assert_eq!(profile.unnamed.samples, 2, "the library has no symbols");
    let truncated: Vec<_> = profile
        .truncated
        .iter()
        .map(|(error, samples)| (error.name(), *samples))
        .collect();
    assert_eq!(truncated, [("MEMORY_INVALID", 2)]);
    assert_eq!(profile.functions[0].name, "[no symbol]");
    assert_eq!(profile.processes[0].name, "/usr/bin/server --port");
    assert_eq!(profile.threads[0].id, 101);
    assert!(summary.notes.is_empty(), "{:?}", summary.notes);
}

/// Returns the losses of a trace with this `PerfEventConfig` and a `PerfSample` that `write` fills.
fn losses(
    config: impl FnOnce(&mut crate::profile::made::Packet<'_>),
    write: impl FnOnce(&mut crate::profile::made::Packet<'_>),
) -> Vec<Loss> {
    let trace = Trace::begun()
        .packet(|p| {
            p.nested(33, |trace| {
                trace.nested(2, |source| {
                    source.nested(1, |source| source.nested(111, config));
                });
            });
        })
        .perf(10, write);
    summary(&trace).losses
}

#[test]
fn losses_of_samples_have_advice_on_settings() {
    let lost = losses(
        |config| config.varint(3, 64),
        |sample| {
            sample.varint(1, 1);
            sample.varint(17, 12);
        },
    );
    assert_eq!(lost[0].cause, Cause::SampleRing);
    assert_eq!(lost[0].amount, "12 records");
    assert!(lost[0].advice.contains("ring_buffer_pages (now 64)"));

    let skipped = |reason: u64| {
        let lost = losses(
            |config| config.varint(17, 4096),
            |sample| {
                sample.varint(1, 1);
                sample.varint(2, 100);
                sample.varint(18, reason);
            },
        );
        lost.into_iter().next()
    };
    let read = skipped(1).unwrap();
    assert_eq!(
        (read.cause, &read.amount[..]),
        (Cause::ProcessGone, "1 sample without callstack")
    );
    assert!(
        read.advice
            .contains("remote_descriptor_timeout_ms (now 100)")
    );
    assert_eq!(skipped(2).unwrap().cause, Cause::ProcessGone);
    let queue = skipped(3).unwrap();
    assert_eq!(queue.cause, Cause::UnwindQueue);
    assert!(
        queue
            .advice
            .contains("max_enqueued_footprint_kb (now 4096)")
    );
    assert_eq!(skipped(4), None, "excluded samples are not lost");

    let guardrail = losses(
        |config| config.varint(13, 1000),
        |sample| sample.nested(19, |event| event.varint(1, 1)),
    );
    assert_eq!(guardrail[0].cause, Cause::Guardrail);
    assert!(
        guardrail[0]
            .advice
            .contains("max_daemon_memory_kb (now 1000)")
    );
}

#[test]
fn undecodable_samples_are_noted() {
    let trace = Trace::begun().sample(50, 100, 10);
    let notes = summary(&trace).notes;
    let expected = "callstack samples: callstack iid that is not defined (1 time)";
    assert_eq!(notes, [expected]);
}

/// Threads wait in the caller of the scheduler; the scheduler itself is not informative.
#[test]
fn off_cpu_time_counts_for_the_waiting_function() {
    let trace = Trace::begun().packet(|p| {
        p.varint(10, SEQUENCE);
        p.varint(13, CLEARED);
        p.nested(59, |defaults| {
            defaults.varint(58, 6);
            defaults.nested(100, |stack| {
                stack.string(1, "linux.off_cpu");
                stack.nested(2, |counter| counter.string(2, "off-cpu"));
            });
        });
        p.nested(12, |data| {
            for (iid, name) in [(1, "main"), (2, "do_nanosleep"), (3, "schedule")] {
                data.nested(5, |entry| {
                    entry.varint(1, iid);
                    entry.string(2, name);
                });
                data.nested(6, |frame| {
                    frame.varint(1, iid);
                    frame.varint(2, iid);
                    frame.varint(7, if iid == 1 { 1 } else { 2 });
                });
            }
            data.nested(7, |stack| {
                stack.varint(1, 1);
                (1..=3).for_each(|frame| stack.varint(2, frame));
            });
        });
        p.varint(8, BOOT + 1);
        p.nested(135, |sample| {
            sample.nested(1, |task| {
                task.varint(2, 100);
                task.varint(3, 101);
            });
            sample.varint(6, 1);
            sample.varint(11, 5_000_000);
        });
    });
    let summary = summary(&trace);
    let [profile] = &summary.profiles[..] else {
        panic!("{summary:#?}")
    };
    assert!(profile.is_off_cpu);
    assert_eq!(profile.total.weight, 5_000_000);
    let first = &profile.functions[0];
    assert_eq!(
        (&first.name[..], first.own.weight),
        ("do_nanosleep", 5_000_000)
    );
    let (profile, counts) = trace.read();
    let options = FoldOptions {
        value: Value::Weight,
        ..FoldOptions::default()
    };
    let lines = folded(&profile, &counts, &options);
    assert_eq!(lines, ["server;main;do_nanosleep 5000000"]);
}

#[test]
fn config_parts_without_effect_are_noted_by_name() {
    let config = |trace: Trace| {
        trace.packet(|p| {
            p.nested(33, |config| {
                let mut source = |name: &str, timebase: Option<u64>| {
                    config.nested(2, |source| {
                        source.nested(1, |source| {
                            source.string(1, name);
                            if let Some(hz) = timebase {
                                source.nested(111, |perf| {
                                    perf.nested(15, |timebase| timebase.varint(2, hz));
                                    perf.nested(16, |callstacks| callstacks.bool(2, true));
                                });
                            }
                        });
                    });
                };
                source("linux.process_stats", None);
                source("linux.sys_stats", None);
                source("linux.perf", Some(50));
                config.nested(17, |triggers| {
                    for name in ["one", "other"] {
                        triggers.nested(2, |trigger| trigger.string(1, name));
                    }
                });
            });
        })
    };
    // The service writes events for the start, the end and the completed read, then the statistics.
    let ended = |trace: Trace| {
        let event = |trace: Trace, field: u32| {
            trace.packet(|p| {
                p.varint(8, 5_000_000_000);
                p.nested(69, |event| event.bool(field, true));
            })
        };
        let trace = event(event(event(trace, 2), 5), 4);
        trace.packet(|p| p.nested(35, |stats| stats.varint(15, 1)))
    };
    let fired = config(Trace::begun()).packet(|p| p.nested(46, |fired| fired.string(1, "one")));
    let truncated = summary(&fired).notes;
    assert!(
        truncated.is_empty(),
        "the missing part may contain it: {truncated:?}"
    );
    let notes = summary(&ended(fired)).notes;
    let [source, samples, trigger] = &notes[..] else {
        panic!("{notes:?}")
    };
    assert!(source.starts_with("no data from the data source linux.sys_stats: "));
    assert!(samples.starts_with("0 callstack samples: ") && samples.contains("(20.0 ms)"));
    assert_eq!(trigger, "the trigger other never fired");
    let sampled = config(Trace::begun().interned().sample(50, 100, 10));
    let notes = summary(&ended(sampled)).notes;
    assert!(
        !notes
            .iter()
            .any(|note| note.contains("0 callstack samples")),
        "{notes:?}"
    );
}
