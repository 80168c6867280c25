//! Summaries of counters, track events and the recorded command.

use crate::summary::made::{Packet, Trace, compact, packed, seconds};

#[test]
fn counters_are_grouped_with_their_samples() {
    let sample = |p: &mut Packet<'_>| {
        p.nested(7, |stats| {
            for key in [1, 2] {
                stats.nested(1, |value| {
                    value.varint(1, key);
                    value.varint(2, 1000);
                });
            }
            for cpu in [0, 1, 2] {
                stats.nested(3, |times| {
                    times.varint(1, cpu);
                    times.varint(2, 5);
                });
            }
            stats.bytes(11, &packed([1_000_000, 2_000_000]));
        });
    };
    let summary = Trace::default()
        .packet(sample)
        .packet(sample)
        .packet(|p| {
            p.nested(9, |stats| {
                stats.nested(1, |process| {
                    process.varint(1, 12);
                    process.varint(3, 1000);
                });
            });
        })
        .summary();
    let counters: Vec<_> = summary
        .counters
        .iter()
        .map(|c| (c.name, c.series, c.samples))
        .collect();
    assert_eq!(
        counters,
        [
            ("CPU frequency (cpufreq)", 2, 4),
            ("CPU times (stat)", 3, 6),
            ("memory (meminfo)", 2, 4),
            ("process memory", 1, 1),
        ]
    );
}

#[test]
fn track_events_are_counted_by_type() {
    let mut trace = Trace::default().packet(|p| {
        p.nested(60, |track| {
            track.varint(1, 99);
            track.nested(3, |process| {
                process.varint(1, 77);
                process.string(6, "my-app");
            });
        });
    });
    trace = trace.packet(|p| {
        p.nested(60, |track| {
            track.varint(1, 98);
            track.nested(8, |_| {}); // a counter
        });
    });
    let event = |trace: Trace, kind: u64, track: u64| {
        trace.packet(|p| {
            p.varint(8, 7); // timestamp
            p.varint(10, 1); // sequence
            p.nested(11, |event| {
                event.varint(9, kind);
                event.varint(11, track);
                event.varint(30, 5); // value
            });
        })
    };
    for (kind, track) in [(1, 99), (1, 99), (2, 99), (3, 99), (4, 98), (0, 99)] {
        trace = event(trace, kind, track);
    }
    // No reader shows the value of a track that is not a counter, or an event without a sequence.
    trace = event(trace, 4, 99);
    trace = trace.packet(|p| p.nested(11, |event| event.varint(9, 1)));
    let counts = trace.summary().track_events;
    assert_eq!((counts.begins, counts.ends, counts.instants), (2, 1, 1));
    assert_eq!((counts.counters, counts.others, counts.tracks), (1, 1, 2));
    assert_eq!(counts.total(), 6);
}

#[test]
fn slices_of_a_track_of_several_threads_are_paired_by_time() {
    // A task begins on one thread and ends on another, whose packets are later in the file.
    let event = |trace: Trace, sequence: u64, at: u64, name: Option<&str>| {
        trace.packet(|p| {
            p.varint(8, seconds(at));
            p.varint(10, sequence);
            p.varint(13, 1);
            p.varint(79, 20);
            p.nested(11, |event| {
                event.varint(9, if name.is_some() { 1 } else { 2 });
                event.varint(11, 99);
                name.into_iter().for_each(|name| event.string(23, name));
            });
        })
    };
    let mut trace = Trace::default().packet(|p| {
        p.nested(33, |config| {
            config.nested(48, |attributes| {
                for (key, text, pid) in [
                    ("ferretto.command", Some("x"), 0),
                    ("ferretto.command.pid", None, 20),
                ] {
                    attributes.nested(1, |entry| {
                        entry.string(1, key);
                        match text {
                            Some(text) => entry.string(3, text),
                            None => entry.varint(2, pid),
                        }
                    });
                }
            })
        });
    });
    for (sequence, at, name) in [
        (1, 1, Some("call")),
        (1, 4, Some("call")),
        (2, 2, None),
        (2, 6, None),
    ] {
        trace = event(trace, sequence, at, name);
    }
    let command = trace.summary().command.unwrap();
    let calls = &command.slices[0];
    assert_eq!((calls.count, calls.unfinished), (2, 0));
    assert_eq!((calls.total_ns, calls.max_ns), (seconds(3), seconds(2)));
}

/// Writes an attribute of the config (48) or of the trace (126).
fn attribute(p: &mut Packet<'_>, number: u32, key: &str, value: Result<&str, u64>) {
    p.nested(number, |attributes| {
        attributes.nested(1, |entry| {
            entry.string(1, key);
            match value {
                Ok(text) => entry.string(3, text),
                Err(number) => entry.varint(2, number),
            }
        });
    });
}

#[test]
fn statistics_of_cpus_do_not_tell_how_long_the_command_ran() {
    let statistics = |trace: Trace, at: u64| {
        trace.packet(|p| {
            p.varint(8, seconds(at));
            p.nested(7, |stats| {
                stats.nested(3, |times| {
                    times.varint(1, 0);
                    times.varint(2, seconds(at));
                    times.varint(5, seconds(at));
                });
            });
        })
    };
    let trace = Trace::default()
        .packet(|p| {
            p.nested(33, |config| {
                attribute(config, 48, "ferretto.command", Ok("make -j2"));
            });
        })
        .packet(|p| attribute(p, 126, "ferretto.command.pid", Err(20)));
    let summary = statistics(statistics(trace, 1), 3).summary();
    let [cpu] = &summary.cpus[..] else {
        panic!("{:?}", summary.cpus)
    };
    assert_eq!((cpu.switches, cpu.busy_ns), (None, seconds(2)));
    let command = summary.command.expect("a command");
    assert_eq!(command.cpu_ns, None);
    // A process has a thread, even if no packet names it.
    assert_eq!((command.processes, command.threads), (1, 1));
}

#[test]
fn a_recorded_command_is_summarized_with_its_descendants() {
    let slice = |trace: Trace, pid: u64, at: u64, name: Option<&str>| {
        trace.packet(|p| {
            p.varint(8, seconds(at));
            p.varint(10, 100 + pid);
            p.varint(13, 1);
            p.varint(79, pid);
            p.nested(11, |event| {
                event.varint(9, if name.is_some() { 1 } else { 2 });
                event.varint(11, pid);
                name.into_iter().for_each(|name| event.string(23, name));
            });
        })
    };
    let mut trace = Trace::default()
        .packet(|p| {
            p.nested(33, |config| {
                attribute(config, 48, "ferretto.command", Ok("make -j2"));
            });
        })
        .packet(|p| {
            p.nested(2, |tree| {
                for (pid, parent) in [(20, 1), (21, 20), (30, 1)] {
                    tree.nested(1, |process| {
                        process.varint(1, pid);
                        process.varint(2, parent);
                    });
                }
            });
        })
        .packet(|p| {
            compact(
                p,
                0,
                false,
                &[
                    (1, 0, ""),
                    (1, 20, "make"),
                    (2, 21, "cc"),
                    (4, 30, "other"),
                    (9, 0, ""),
                ],
            )
        });
    for (pid, at, name) in [
        (20, 1, Some("run")),
        (20, 2, Some("run")),
        (20, 5, None),
        (20, 6, None),
        (21, 1, Some("compile")),
        (30, 1, Some("unrelated")),
        (30, 9, None),
    ] {
        trace = slice(trace, pid, at, name);
    }
    let unnamed = trace.summary().command.expect("a command");
    assert_eq!((&*unnamed.command, unnamed.pid), ("make -j2", None));
    let trace = trace.packet(|p| attribute(p, 126, "ferretto.command.pid", Err(20)));
    let command = trace.summary().command.expect("a command");
    assert_eq!(command.pid, Some(20));
    assert_eq!(command.cpu_ns, Some(seconds(3)));
    assert_eq!(
        (command.processes, command.threads, command.events),
        (2, 2, 5)
    );
    let slices: Vec<_> = command.slices.iter().collect();
    let [run, compile] = slices[..] else {
        panic!("{slices:?}")
    };
    assert_eq!((&*run.name, run.count, run.unfinished), ("run", 2, 0));
    assert_eq!((run.total_ns, run.max_ns), (seconds(8), seconds(5)));
    assert_eq!(
        (&*compile.name, compile.count, compile.unfinished),
        ("compile", 1, 1)
    );
    // A recording of the whole machine has no command.
    assert_eq!(Trace::recording(0, 1, |_| {}).summary().command, None);
}

#[test]
fn names_cannot_control_the_terminal() {
    let summary = Trace::recording(0, 10, |_| {})
        .packet(|p| {
            compact(
                p,
                0,
                false,
                &[(1, 0, ""), (1, 5, "\x1b[31mred\n"), (2, 0, "")],
            )
        })
        .summary();
    assert_eq!(summary.processes[0].name, "[31mred");
}

#[test]
fn a_protovm_state_counts_for_the_service() {
    let summary = Trace::recording(100, 110, |_| {})
        .packet(|p| {
            p.nested(125, |vms| {
                vms.nested(1, |vm| vm.nested(2, |state| state.nested(11, |_| {})));
            });
        })
        .summary();
    let names: Vec<_> = summary.sources.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["tracing service"]);
}
