//! Summaries of hand-made traces.

use ferretto_trace::summary::{Cause, Loss};
use ferretto_trace::{Summary, summarize};
use ferretto_wire::{Encoder, encode};

type Packet<'a> = Encoder<'a, Vec<u8>>;

/// A trace under construction.
#[derive(Default)]
struct Trace(Vec<u8>);

impl Trace {
    fn packet(mut self, write: impl FnOnce(&mut Packet<'_>)) -> Self {
        Encoder::new(&mut self.0).bytes(1, &encode(write));
        self
    }

    /// A recording from `start` to `end` seconds with one buffer and the service's statistics.
    fn recording(start: u64, end: u64, stats: impl FnOnce(&mut Packet<'_>)) -> Self {
        Self::default()
            .packet(|p| {
                p.nested(33, |config| {
                    config.nested(1, |buffer| {
                        buffer.varint(1, 4096);
                        buffer.string(7, "main");
                    });
                });
                p.varint(10, 1);
            })
            .packet(|p| {
                p.varint(8, seconds(start));
                p.nested(69, |event| event.bool(2, true));
                p.varint(10, 1);
            })
            .packet(|p| {
                p.varint(8, seconds(end));
                p.nested(69, |event| event.bool(5, true));
                p.varint(10, 1);
            })
            .drained(stats)
    }

    /// What the service says when it has handed out everything.
    fn drained(self, stats: impl FnOnce(&mut Packet<'_>)) -> Self {
        self.packet(|p| {
            p.nested(69, |event| event.bool(4, true));
            p.varint(10, 1);
        })
        .packet(|p| {
            p.nested(35, stats);
            p.varint(10, 1);
        })
    }

    fn summary(&self) -> Summary {
        summarize(&self.0[..]).unwrap()
    }
}

fn seconds(seconds: u64) -> u64 {
    seconds * 1_000_000_000
}

fn packed(values: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for value in values {
        let mut buffer = [0; ferretto_wire::MAX_VARINT_LENGTH];
        let length = ferretto_wire::encode_varint(value, &mut buffer);
        bytes.extend(&buffer[..length]);
    }
    bytes
}

/// Context switches of one CPU in the compact encoding: (time in seconds, pid, name).
fn compact(p: &mut Packet<'_>, cpu: u64, lost: bool, switches: &[(u64, u64, &str)]) {
    p.nested(1, |bundle| {
        bundle.varint(1, cpu);
        if lost {
            bundle.bool(3, true);
        }
        bundle.nested(4, |sched| {
            switches
                .iter()
                .for_each(|(_, _, name)| sched.string(5, name));
            let mut last = 0;
            let deltas = switches.iter().map(|(at, ..)| {
                let delta = seconds(*at) - last;
                last = seconds(*at);
                delta
            });
            sched.bytes(1, &packed(deltas));
            sched.bytes(3, &packed(switches.iter().map(|(_, pid, _)| *pid)));
            sched.bytes(6, &packed(0..switches.len() as u64));
            sched.bytes(7, &packed([seconds(1), 5]));
        });
    });
    p.varint(10, 2);
    p.varint(79, 77);
}

fn find(losses: &[Loss], cause: Cause) -> &Loss {
    losses
        .iter()
        .find(|loss| loss.cause == cause)
        .unwrap_or_else(|| panic!("{losses:#?}"))
}

#[test]
fn cpu_time_goes_to_processes_by_their_names() {
    let summary = Trace::recording(100, 110, |_| {})
        .packet(|p| {
            p.nested(2, |tree| {
                tree.nested(1, |process| {
                    process.varint(1, 500);
                    process.string(3, "/usr/bin/make");
                    process.string(3, "-j2");
                });
                tree.nested(2, |thread| {
                    thread.varint(1, 501);
                    thread.string(2, "worker");
                    thread.varint(3, 500);
                });
            });
        })
        .packet(|p| {
            compact(
                p,
                0,
                false,
                &[(101, 500, "make"), (103, 501, "worker"), (104, 0, "")],
            )
        })
        .packet(|p| compact(p, 1, false, &[(101, 0, "swapper"), (102, 900, "lonely")]))
        .summary();

    let named: Vec<_> = summary
        .processes
        .iter()
        .map(|p| (p.pid, p.name.as_str(), p.cpu_ns, p.threads))
        .collect();
    // The last thread on a CPU runs until the end of the recording.
    assert_eq!(
        named,
        [
            (900, "lonely", seconds(8), 1),
            (500, "/usr/bin/make -j2", seconds(3), 2)
        ]
    );
    let cpus: Vec<_> = summary
        .cpus
        .iter()
        .map(|c| (c.cpu, c.switches, c.busy_ns, c.idle_ns))
        .collect();
    assert_eq!(
        cpus,
        [
            (0, 3, seconds(3), seconds(6)),
            (1, 2, seconds(8), seconds(1))
        ]
    );
    assert_eq!(summary.duration_ns, Some(seconds(10)));
    let ftrace = summary
        .sources
        .iter()
        .find(|s| s.name == "linux.ftrace")
        .unwrap();
    assert_eq!(ftrace.events, 9);
    assert_eq!(
        ftrace.kinds,
        [("sched_switch".into(), 5), ("sched_waking".into(), 4)]
    );
}

#[test]
fn a_gap_in_the_kernel_buffer_gives_its_time_to_nobody() {
    let summary = Trace::recording(100, 110, |_| {})
        .packet(|p| compact(p, 0, false, &[(101, 500, "a")]))
        .packet(|p| compact(p, 0, true, &[(108, 600, "b"), (109, 0, "")]))
        .summary();
    let times: Vec<_> = summary
        .processes
        .iter()
        .map(|p| (p.pid, p.cpu_ns))
        .collect();
    assert_eq!(times, [(600, seconds(1))]);
    assert_eq!(find(&summary.losses, Cause::KernelBuffer).amount, "1 gap");
}

#[test]
fn plain_switch_events_count_like_compact_ones() {
    let switch = |p: &mut Packet<'_>, at: u64, next: u64| {
        p.nested(1, |bundle| {
            bundle.varint(1, 3);
            bundle.nested(2, |event| {
                event.varint(1, seconds(at));
                event.varint(2, 1);
                event.nested(4, |switch| {
                    switch.varint(2, 1);
                    switch.string(5, "next");
                    switch.varint(6, next);
                });
            });
        });
    };
    let summary = Trace::recording(0, 10, |_| {})
        .packet(|p| switch(p, 2, 7))
        .packet(|p| switch(p, 5, 0))
        .summary();
    assert_eq!(summary.processes.len(), 1);
    assert_eq!(summary.processes[0].cpu_ns, seconds(3));
    assert_eq!(summary.processes[0].name, "next");
    assert_eq!(summary.cpus[0].cpu, 3);
}

#[test]
fn threads_started_during_the_recording_belong_to_their_parents_process() {
    let summary = Trace::recording(0, 10, |_| {})
        .packet(|p| {
            p.nested(2, |tree| tree.nested(1, |process| process.varint(1, 40)));
        })
        .packet(|p| {
            p.nested(1, |bundle| {
                bundle.nested(2, |event| {
                    event.varint(1, seconds(1));
                    event.varint(2, 40);
                    event.nested(235, |task| {
                        task.varint(1, 41);
                        task.string(2, "child");
                        task.varint(3, 0x10000);
                    });
                });
            });
        })
        .packet(|p| {
            compact(
                p,
                0,
                false,
                &[(2, 41, "child"), (5, 40, "parent"), (6, 0, "")],
            )
        })
        .summary();
    let process = &summary.processes[0];
    assert_eq!(
        (process.pid, process.cpu_ns, process.threads),
        (40, seconds(4), 2)
    );
    assert_eq!(process.name, "parent");
}

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
    for kind in [1, 1, 2, 3, 4, 0] {
        trace = trace.packet(|p| p.nested(11, |event| event.varint(9, kind)));
    }
    let counts = trace.summary().track_events;
    assert_eq!((counts.begins, counts.ends, counts.instants), (2, 1, 1));
    assert_eq!((counts.counters, counts.others, counts.tracks), (1, 1, 1));
    assert_eq!(counts.total(), 6);
}

#[test]
fn nothing_lost_is_only_claimed_with_statistics() {
    let with = Trace::recording(0, 1, |stats| stats.nested(1, |buffer| buffer.varint(1, 10)));
    assert!(with.summary().losses_known());
    assert_eq!(with.summary().losses, []);
    assert!(
        !Trace::default()
            .packet(|p| p.varint(8, 1))
            .summary()
            .losses_known()
    );
    // Kernel events without the kernel's counters leave the question open, too.
    let kernel = with.packet(|p| compact(p, 0, false, &[(0, 1, "x")]));
    assert!(!kernel.summary().losses_known());
}

#[test]
fn an_overwritten_buffer_is_told_with_the_size_that_would_have_done() {
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
    assert_eq!(loss.place, "buffer 0 \"main\"");
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
fn chunks_that_a_buffer_did_not_take_came_too_late_or_found_it_full() {
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
    assert_eq!(loss.place, "app (pid 31) [track_event], buffer 0 \"main\"");
    assert_eq!(loss.amount, "1 gap");
    assert!(loss.advice.contains("shm_size_kb"));
    assert_eq!(summary.losses.len(), 1);
}

#[test]
fn a_bare_loss_flag_without_any_loss_in_the_statistics_is_no_loss() {
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
fn kernel_overruns_are_the_difference_over_the_recording() {
    let stats = |p: &mut Packet<'_>, phase: u64, overrun: u64| {
        p.nested(34, |stats| {
            stats.varint(1, phase);
            for cpu in [0, 1] {
                stats.nested(2, |c| {
                    c.varint(1, cpu);
                    c.varint(3, if cpu == 1 { overrun } else { 3 });
                });
            }
            stats.varint(11, 512);
            if phase == 1 {
                stats.string(6, "sched/no_such_event");
            }
        });
    };
    let summary = Trace::recording(0, 1, |_| {})
        .packet(|p| stats(p, 1, 100))
        .packet(|p| stats(p, 2, 150))
        .packet(|p| stats(p, 1, 100))
        .packet(|p| stats(p, 2, 350))
        .summary();
    let loss = find(&summary.losses, Cause::KernelBuffer);
    assert_eq!(loss.place, "kernel buffer of CPU 1");
    assert_eq!(loss.amount, "250 events overwritten before they were read");
    assert!(
        loss.advice.contains("buffer_size_kb (now 2048 per CPU)"),
        "{}",
        loss.advice
    );
    assert_eq!(
        summary.notes,
        ["kernel events that could not be had: sched/no_such_event"]
    );
}

/// With every flush the counters are written as those of the end; a recorder that is killed leaves old ones behind.
#[test]
fn kernel_counters_that_are_too_old_promise_nothing() {
    let recorded_until = |second: f64, asked: u64| {
        Trace::default()
            .packet(|p| {
                p.varint(8, seconds(asked));
                p.nested(69, |event| event.bool(9, true));
            })
            .packet(|p| {
                p.nested(34, |stats| {
                    stats.varint(1, 2);
                    stats.nested(2, |cpu| cpu.double(7, second));
                });
            })
            .packet(|p| {
                p.varint(8, seconds(20));
                p.nested(69, |event| event.bool(5, true));
            })
            .drained(|_| {})
            .summary()
    };
    let whole = recorded_until(19.1, 19);
    assert!(whole.is_complete(), "{whole:?}");
    // Somebody else took his time with the last flush.
    let slow = recorded_until(16.5, 16);
    assert!(slow.is_complete(), "{slow:?}");
    for (until, gone) in [(15.5, "3.5 s"), (18.9, "100.0 ms")] {
        let killed = recorded_until(until, 19);
        assert!(!killed.is_complete());
        let expected = format!(
            "who recorded kernel events was gone {gone} before the end; what followed is missing"
        );
        assert_eq!(killed.unknown, [expected]);
    }
}

/// Wherever a file is cut, at the end of a packet or inside one, the words are gone.
#[test]
fn a_file_that_is_cut_anywhere_promises_nothing() {
    let whole = Trace::default()
        .packet(|p| {
            p.varint(8, seconds(1));
            p.nested(69, |event| event.bool(2, true));
        })
        // What the service tells while it records is not the end.
        .drained(|stats| stats.varint(12, 1))
        .packet(|p| p.nested(11, |event| event.varint(9, 3)))
        .packet(|p| {
            p.varint(8, seconds(2));
            p.nested(69, |event| event.bool(5, true));
        })
        .packet(|p| p.nested(11, |event| event.varint(9, 3)))
        .drained(|stats| stats.varint(15, 1));
    assert!(whole.summary().is_complete(), "{:?}", whole.summary());
    for cut in 1..whole.0.len() {
        let summary = summarize(&whole.0[..cut]).unwrap();
        assert!(!summary.is_complete(), "cut at {cut}: {summary:?}");
    }
    // Names that a symbolizer appended are no part of the recording.
    let whole = whole.packet(|p| p.nested(61, |symbols| symbols.string(1, "/bin/true")));
    assert!(whole.summary().is_complete(), "{:?}", whole.summary());
    // A damaged byte in the middle does not go unnoticed either, nor does an incomplete packet behind the statistics.
    let mut damaged = whole.0.clone();
    damaged.extend([0x0a, 5, 1]);
    let summary = summarize(&damaged[..]).unwrap();
    assert!(!summary.is_complete());
    let place = format!("at byte {}", whole.0.len());
    let is_told = summary.notes.iter().any(|note| note.ends_with(&place));
    assert!(is_told, "{:?}", summary.notes);
}

#[test]
fn data_sources_that_were_gone_at_the_end_are_named() {
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
        gone.unknown[0].starts_with("linux.perf of traced_perf was gone"),
        "{gone:?}"
    );
    // If the service has waited for it in vain, that is told as a loss.
    let slow = recorded(true);
    assert_eq!(
        find(&slow.losses, Cause::Flush).place,
        "linux.perf of traced_perf"
    );
    assert!(slow.losses_known(), "{slow:?}");
}

/// A command whose number comes last, a child of it, and a process that has nothing to do with it.
#[test]
fn a_recorded_command_is_summed_up_with_what_it_started() {
    let attribute = |p: &mut Packet<'_>, number, key: &str, value: Result<&str, u64>| {
        p.nested(number, |attributes| {
            attributes.nested(1, |entry| {
                entry.string(1, key);
                match value {
                    Ok(text) => entry.string(3, text),
                    Err(number) => entry.varint(2, number),
                }
            });
        });
    };
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
                &[(1, 20, "make"), (2, 21, "cc"), (4, 30, "other"), (9, 0, "")],
            )
        });
    for (pid, at, name) in [
        (20, 1, Some("run")),
        (20, 2, Some("run")),
        (20, 5, None),
        (20, 6, None),
        (21, 1, Some("compile")),
        (30, 1, Some("not of it")),
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
    // A trace of the machine has none.
    assert_eq!(Trace::recording(0, 1, |_| {}).summary().command, None);
}

#[test]
fn without_service_events_the_outcome_of_the_last_flush_tells_of_the_end() {
    let stats = |outcome| {
        Trace::default()
            .packet(|p| p.nested(35, |stats| stats.varint(15, outcome)))
            .summary()
    };
    assert!(stats(1).is_complete());
    assert!(!stats(0).is_complete());
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
    assert_eq!(loss.place, "track_event of my-app");
    assert!(loss.advice.contains("flush_timeout_ms (now 5000)"));
}

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
fn a_cut_file_is_summarised_up_to_the_cut() {
    let mut trace = Trace::recording(0, 1, |_| {});
    trace.0.extend([0x0a, 50, 1, 2, 3]);
    let summary = trace.summary();
    assert_eq!(summary.packets, 5);
    assert_eq!(summary.bytes, trace.0.len() as u64);
    assert!(
        summary.notes[0].contains("ends inside a packet"),
        "{:?}",
        summary.notes
    );
}

#[test]
fn names_cannot_control_the_terminal() {
    let summary = Trace::recording(0, 10, |_| {})
        .packet(|p| compact(p, 0, false, &[(1, 5, "\x1b[31mred\n"), (2, 0, "")]))
        .summary();
    assert_eq!(summary.processes[0].name, "[31mred");
}

#[test]
fn any_change_of_any_byte_is_survived() {
    let trace = Trace::recording(100, 110, |stats| {
        stats.nested(1, |buffer| {
            buffer.varint(1, u64::MAX);
            buffer.varint(3, u64::MAX);
        });
        stats.varint(8, u64::MAX);
        stats.varint(9, u64::MAX);
        stats.varint(10, u64::MAX);
    })
    .packet(|p| {
        compact(
            p,
            0,
            true,
            &[(101, 500, "make"), (103, 501, "worker"), (104, 0, "")],
        )
    });
    summarize(&trace.0[..]).unwrap();
    for at in 0..trace.0.len() {
        for value in [0x00, 0xff] {
            let mut bytes = trace.0.clone();
            bytes[at] = value;
            let _ = summarize(&bytes[..]);
        }
    }
}
