//! Summaries of kernel events: CPU time, activities and losses.

use ferretto_trace::Summary;
use ferretto_trace::summary::Cause;

use ferretto_wire::encode;

use crate::summary::made::{Packet, Trace, compact, find, seconds};

#[test]
fn cpu_time_is_attributed_to_named_processes() {
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
                &[
                    (101, 0, ""),
                    (101, 500, "make"),
                    (103, 501, "worker"),
                    (104, 0, ""),
                ],
            )
        })
        .packet(|p| {
            compact(
                p,
                1,
                false,
                &[(101, 0, ""), (101, 0, "swapper"), (102, 900, "lonely")],
            )
        })
        .summary();

    let named: Vec<_> = summary
        .processes
        .iter()
        .map(|p| (p.pid, p.name.as_str(), p.cpu_ns, p.threads))
        .collect();
    // The last thread on a CPU runs until the last event.
    assert_eq!(
        named,
        [
            (500, "/usr/bin/make -j2", seconds(3), 2),
            (900, "lonely", seconds(2), 1)
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
            (0, Some(4), seconds(3), 0),
            (1, Some(3), seconds(2), seconds(1))
        ]
    );
    // From the first to the last event, not that of the recording.
    assert_eq!(summary.duration_ns, Some(seconds(3)));
    let ftrace = summary
        .sources
        .iter()
        .find(|s| s.name == "linux.ftrace")
        .unwrap();
    assert_eq!(ftrace.events, 11);
    assert_eq!(
        ftrace.kinds,
        [("sched_switch".into(), 7), ("sched_waking".into(), 4)]
    );
}

#[test]
fn what_ran_before_a_missing_switch_is_unknown() {
    let whole = |p: &mut Packet<'_>, lost: bool, at: u64, prev: u64, next: u64| {
        p.nested(1, |bundle| {
            bundle.varint(1, 0);
            if lost {
                bundle.varint(3, 1);
            }
            bundle.nested(2, |event| {
                event.varint(1, seconds(at));
                event.varint(2, prev);
                event.nested(4, |switch| {
                    switch.varint(2, prev);
                    switch.varint(6, next);
                });
            });
        });
    };
    let started = [(101, 500, "a"), (102, 600, "b"), (103, 0, "")];
    let summary = |lost| {
        Trace::recording(100, 110, |_| {})
            .packet(|p| compact(p, 0, false, &started))
            // From the idle task to thread 700 at some time.
            .packet(|p| whole(p, lost, 106, 700, 500))
            .packet(|p| compact(p, 0, false, &[(107, 0, "")]))
            .summary()
    };
    let numbers = |summary: &Summary| {
        let cpu = summary.cpus[0];
        let missing = (cpu.missing_switches, cpu.unknown_ns);
        (cpu.switches, missing, cpu.busy_ns, cpu.idle_ns)
    };
    let broken = summary(false);
    assert_eq!(numbers(&broken), (Some(5), (1, seconds(3)), seconds(2), 5));
    // A loss that the kernel reported explains it.
    let lost = summary(true);
    assert_eq!(numbers(&lost), (Some(5), (0, 0), seconds(2), 5));
}

/// A thread that is seen again after another one came back by switches that are missing, too.
#[test]
fn what_ran_after_an_event_of_another_thread_is_unknown() {
    let event = |bundle: &mut Packet<'_>, at: u64, pid: u64| {
        bundle.nested(2, |event| {
            event.varint(1, seconds(at));
            event.varint(2, pid);
            event.nested(3, |print| print.string(2, "x"));
        });
    };
    let switch = |bundle: &mut Packet<'_>, at: u64, prev: u64, next: u64| {
        bundle.nested(2, |event| {
            event.varint(1, seconds(at));
            event.varint(2, prev);
            event.nested(4, |switch| {
                switch.varint(2, prev);
                switch.varint(6, next);
            });
        });
    };
    let trace = Trace::recording(100, 110, |_| {}).packet(|p| {
        p.nested(1, |bundle| {
            bundle.varint(1, 0);
            switch(bundle, 101, 0, 500);
            event(bundle, 102, 500);
            event(bundle, 103, 600);
            event(bundle, 104, 500);
            switch(bundle, 105, 700, 0);
        });
    });
    let cpu = trace.summary().cpus[0];
    assert_eq!((cpu.missing_switches, cpu.unknown_ns), (1, seconds(3)));
}

#[test]
fn without_context_switches_the_kernels_counters_tell_how_busy_cpus_were() {
    const MS: u64 = 1_000_000;
    let counters = |stats: &mut Packet<'_>, cpu, user: u64, idle: u64, wait: u64| {
        stats.nested(3, |times| {
            let values = [
                (1, cpu),
                (2, user * MS),
                (5, idle * MS),
                (6, wait * MS),
                (9, 77),
            ];
            values
                .iter()
                .for_each(|&(number, value)| times.varint(number, value));
        });
    };
    let sample = |p: &mut Packet<'_>, user: u64| {
        p.nested(7, |stats| {
            counters(stats, 0, user, 500, 10);
            counters(stats, 1, 100 + user * 2, 400 + user, 0);
        });
    };
    let recording = || {
        Trace::recording(100, 110, |_| {})
            .packet(|p| sample(p, 40))
            .packet(|p| sample(p, 90))
    };
    let busy = |summary: &Summary| -> Vec<_> {
        let cpus = summary.cpus.iter();
        cpus.map(|cpu| (cpu.cpu, cpu.switches, cpu.busy_ns / MS, cpu.idle_ns / MS))
            .collect()
    };
    let counted = recording().summary();
    assert_eq!(busy(&counted), [(0, None, 50, 0), (1, None, 100, 50)]);
    // Switches are exact, so counters say nothing more.
    let both = recording()
        .packet(|p| compact(p, 0, false, &[(101, 0, ""), (101, 500, "a"), (102, 0, "")]))
        .summary();
    assert_eq!(busy(&both), [(0, Some(3), 1000, 0)]);
}

#[test]
fn time_in_a_gap_of_the_kernel_buffer_is_not_attributed() {
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
    let switch = |p: &mut Packet<'_>, at: u64, prev: u64, next: u64| {
        p.nested(1, |bundle| {
            bundle.varint(1, 3);
            bundle.nested(2, |event| {
                event.varint(1, seconds(at));
                event.varint(2, prev);
                event.nested(4, |switch| {
                    switch.varint(2, prev);
                    switch.string(5, "next");
                    switch.varint(6, next);
                });
            });
        });
    };
    let summary = Trace::recording(0, 10, |_| {})
        .packet(|p| switch(p, 2, 1, 7))
        .packet(|p| switch(p, 5, 7, 0))
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
                &[(2, 0, ""), (2, 41, "child"), (5, 40, "parent"), (6, 0, "")],
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
    assert_eq!(loss.source, "kernel buffer of CPU 1");
    assert_eq!(loss.amount, "250 events overwritten before they were read");
    assert!(
        loss.advice.contains("buffer_size_kb (now 2048 per CPU)"),
        "{}",
        loss.advice
    );
    assert_eq!(
        summary.notes,
        ["kernel events that were not available: sched/no_such_event"]
    );
}

/// The final counters are written with every flush; those of a killed recorder are old.
#[test]
fn old_kernel_counters_mean_that_losses_are_unknown() {
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
    // Another data source delayed the last flush.
    let slow = recorded_until(16.5, 16);
    assert!(slow.is_complete(), "{slow:?}");
    for (until, gone) in [(15.5, "3.5 s"), (18.9, "100.0 ms")] {
        let killed = recorded_until(until, 19);
        assert!(!killed.is_complete());
        let expected = format!(
            "the recorder of kernel events ended {gone} before the recording; later events are missing"
        );
        assert_eq!(killed.unknown, [expected]);
    }
}

#[test]
fn a_task_has_its_newest_name_in_any_order_of_cpus() {
    let on_cpu = |cpu: u64, write: fn(&mut Packet<'_>)| {
        move |p: &mut Packet<'_>| {
            p.nested(1, |bundle| {
                bundle.varint(1, cpu);
                write(bundle);
            });
        }
    };
    let summary = Trace::recording(0, 10, |_| {})
        .packet(|p| compact(p, 1, false, &[(5, 41, "command"), (6, 0, "")]))
        .packet(on_cpu(0, |bundle| {
            event(bundle, 1, 40, 235, |task| {
                task.varint(1, 41);
                task.string(2, "starter");
            });
            event(bundle, 1, 40, 235, |task| {
                task.varint(1, 42);
                task.string(2, "starter");
            });
        }))
        .packet(|p| {
            compact(
                p,
                0,
                false,
                &[
                    (2, 0, ""),
                    (2, 41, "starter"),
                    (3, 42, "starter"),
                    (7, 0, ""),
                ],
            )
        })
        // The task continues under another name.
        .packet(on_cpu(0, |bundle| {
            event(bundle, 4, 42, 236, |rename| {
                rename.varint(1, 42);
                rename.string(2, "starter");
                rename.string(3, "renamed");
            });
        }))
        .summary();
    let mut names: Vec<_> = summary
        .processes
        .iter()
        .map(|process| (process.pid, &*process.name))
        .collect();
    names.sort_unstable();
    assert_eq!(names, [(41, "command"), (42, "renamed")]);
}

/// Writes an `FtraceEvent` of a thread at a time in seconds.
fn event(
    bundle: &mut Packet<'_>,
    at: u64,
    pid: u64,
    kind: u32,
    write: impl FnOnce(&mut Packet<'_>),
) {
    bundle.nested(2, |event| {
        event.varint(1, seconds(at));
        event.varint(2, pid);
        event.nested(kind, write);
    });
}

#[test]
fn system_calls_are_paired_across_cpus_and_have_names() {
    use ferretto_trace::summary::ActivityKind;
    const ENTER: u32 = 329;
    const EXIT: u32 = 330;
    const FUTEX: u64 = 202;

    let summary = Trace::recording(100, 110, |_| {})
        .packet(|p| {
            p.nested(45, |info| {
                info.nested(1, |utsname| utsname.string(4, "x86_64"))
            });
        })
        // The first call ends on the other CPU, whose events are later in the file.
        .packet(|p| {
            p.nested(1, |bundle| {
                bundle.varint(1, 0);
                event(bundle, 101, 7, ENTER, |call| call.varint(1, FUTEX));
                event(bundle, 106, 7, EXIT, |call| call.varint(1, 0));
            });
        })
        .packet(|p| {
            p.nested(1, |bundle| {
                bundle.varint(1, 1);
                event(bundle, 103, 7, EXIT, |call| call.varint(1, FUTEX));
                event(bundle, 105, 7, ENTER, |call| call.varint(1, 0));
                event(bundle, 107, 8, EXIT, |call| call.varint(1, 1));
                event(bundle, 108, 8, ENTER, |call| call.varint(1, 9999));
            });
        })
        .summary();
    let rows: Vec<_> = summary
        .activity
        .iter()
        .map(|it| {
            (
                it.kind,
                it.name.as_str(),
                it.count,
                it.finished,
                it.total_ns,
                it.max_ns,
            )
        })
        .collect();
    let call = ActivityKind::SystemCall;
    assert_eq!(
        rows,
        [
            (call, "futex", 1, 1, seconds(2), seconds(2)),
            (call, "read", 1, 1, seconds(1), seconds(1)),
            // It did not end, so its duration is unknown.
            (call, "system call 9999", 1, 0, 0, 0),
        ]
    );
}

#[test]
fn a_gap_makes_the_duration_of_a_call_unknown() {
    let summary = Trace::recording(100, 110, |_| {})
        .packet(|p| {
            p.nested(1, |bundle| {
                event(bundle, 101, 7, 329, |call| call.varint(1, 0))
            });
        })
        .packet(|p| {
            p.nested(1, |bundle| {
                bundle.bool(3, true);
                event(bundle, 105, 7, 330, |call| call.varint(1, 0));
            });
        })
        .summary();
    assert_eq!(summary.activity.len(), 1);
    assert_eq!(
        (summary.activity[0].count, summary.activity[0].finished),
        (1, 0)
    );
}

#[test]
fn disks_and_interrupts_are_named() {
    let summary = Trace::recording(100, 110, |_| {})
        .packet(|p| {
            p.nested(1, |bundle| {
                event(bundle, 101, 7, 45, |request| {
                    request.varint(1, 8 << 8 | 1);
                    request.varint(2, 4096);
                    request.varint(4, 512);
                    request.string(5, "WS");
                });
                event(bundle, 102, 7, 36, |irq| irq.string(2, "eth0"));
                event(bundle, 103, 7, 37, |irq| irq.varint(1, 1));
                event(bundle, 104, 0, 125, |request| {
                    request.varint(1, 8 << 8 | 1);
                    request.varint(2, 4096);
                });
                event(bundle, 105, 7, 361, |packet| {
                    packet.varint(1, 1500);
                    packet.string(2, "lo");
                });
            });
        })
        .summary();
    let rows: Vec<_> = summary
        .activity
        .iter()
        .map(|it| (it.name.as_str(), it.count, it.total_ns, it.bytes))
        .collect();
    assert_eq!(
        rows,
        [
            ("eth0", 1, seconds(1), 0),
            ("8:1 write", 1, seconds(3), 512),
            ("lo sent", 1, 0, 1500)
        ]
    );
}

#[test]
fn disks_have_recorded_names() {
    let summary = Trace::recording(100, 110, |_| {})
        .packet(|p| {
            p.nested(126, |attributes| {
                attributes.nested(1, |attribute| {
                    attribute.string(1, "ferretto.disk.259:3");
                    attribute.string(3, "nvme0n1");
                });
            });
        })
        .packet(|p| {
            p.nested(1, |bundle| {
                for (at, device) in [(101, 259 << 8 | 3), (102, 8 << 8)] {
                    event(bundle, at, 7, 45, |request| {
                        request.varint(1, device);
                        request.string(5, "R");
                    });
                }
            });
        })
        .summary();
    let names = summary.activity.iter().map(|it| it.name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["8:0 read", "nvme0n1 read"]);
}

#[test]
fn generic_events_have_their_described_names() {
    let descriptor = encode(|message| message.string(1, "page_fault_user"));
    let summary = Trace::recording(100, 110, |_| {})
        .packet(|p| {
            p.varint(10, 5);
            p.nested(1, |bundle| {
                event(bundle, 101, 7, 65536, |_| {});
                bundle.nested(11, |description| {
                    description.varint(1, 65536);
                    description.bytes(2, &descriptor);
                });
            });
        })
        // Another recorder uses the number for another event, without a descriptor.
        .packet(|p| {
            p.varint(10, 6);
            p.nested(1, |bundle| event(bundle, 102, 7, 65536, |_| {}));
        })
        .summary();
    let ftrace = summary.sources.iter().find(|it| it.name == "linux.ftrace");
    let mut kinds = ftrace.unwrap().kinds.clone();
    kinds.sort();
    assert_eq!(
        kinds,
        [("other events".into(), 1), ("page_fault_user".into(), 1)]
    );
}

#[test]
fn merged_requests_to_disks_are_not_counted() {
    let request = |at: u64, kind: u32, sector: u64| (at, kind, sector);
    let (start, done, issue, complete, requeue) = (546, 547, 45, 125, 129);
    let accounted = [
        request(101, start, 8),
        request(102, start, 16),
        request(110, done, 8),
    ];
    let driver = [
        request(103, issue, 8),
        request(104, requeue, 8),
        request(105, issue, 8),
        request(109, complete, 8),
    ];
    let both = [&accounted[..], &driver].concat();
    for (events, expected) in [
        (&accounted[..], ("8:0 write", 2, 1, seconds(9))),
        (&both, ("8:0 write", 2, 2, seconds(5))),
    ] {
        let summary = Trace::recording(100, 110, |_| {})
            .packet(|p| {
                p.nested(1, |bundle| {
                    for (at, kind, sector) in events {
                        event(bundle, *at, 7, *kind, |body| {
                            body.varint(1, 8 << 8);
                            body.varint(2, *sector);
                            body.string(if *kind == start { 6 } else { 5 }, "WS");
                        });
                    }
                });
            })
            .summary();
        let rows = summary.activity.iter();
        let rows = rows.map(|it| (it.name.as_str(), it.count, it.finished, it.total_ns));
        assert_eq!(rows.collect::<Vec<_>>(), [expected]);
    }
}

#[test]
fn calls_that_do_not_return_end_with_their_thread() {
    let (enter, exit, ended) = (329, 330, 238);
    let summary = Trace::recording(100, 110, |_| {})
        .packet(|p| {
            p.nested(1, |bundle| {
                // The return is of another call, which a signal interrupted.
                for (at, kind, field, value) in
                    [(101, enter, 1, 231), (102, exit, 1, 15), (104, ended, 2, 7)]
                {
                    event(bundle, at, 7, kind, |body| body.varint(field, value));
                }
            });
        })
        .summary();
    let rows = summary.activity.iter();
    let rows = rows.map(|it| (it.count, it.finished, it.total_ns));
    assert_eq!(rows.collect::<Vec<_>>(), [(1, 1, seconds(3))]);
}

#[test]
fn the_calls_of_the_recorded_processes_are_counted_with_their_failures() {
    let (enter, exit) = (329, 330);
    let (failed, interrupted) = ((-2_i64).cast_unsigned(), (-512_i64).cast_unsigned());
    let trace = |key: &str, value: &str| {
        Trace::recording(100, 110, |_| {})
            .packet(|p| {
                p.nested(126, |attributes| {
                    attributes.nested(1, |entry| {
                        entry.string(1, key);
                        entry.string(3, value);
                    });
                });
            })
            .packet(|p| {
                p.nested(2, |tree| {
                    for (pid, parent, name) in [(20, 1, "make"), (21, 20, "cc"), (30, 1, "x")] {
                        tree.nested(1, |process| {
                            process.varint(1, pid);
                            process.varint(2, parent);
                            process.string(3, name);
                        });
                    }
                });
            })
            .packet(|p| {
                p.nested(1, |bundle| {
                    let mut at = 101;
                    for (pid, result) in [(20, 0), (21, failed), (30, failed), (20, interrupted)] {
                        event(bundle, at, pid, enter, |call| call.varint(1, 7));
                        event(bundle, at + 1, pid, exit, |call| {
                            call.varint(1, 7);
                            call.varint(2, result);
                        });
                        at += 2;
                    }
                });
            })
            .summary()
    };
    for (key, value, pids) in [
        ("ferretto.command", "make", &[][..]),
        ("ferretto.pids", "20,99", &[20, 99]),
    ] {
        let summary = trace(key, value);
        assert_eq!(summary.pids, pids);
        let [own] = &summary.own_system_calls[..] else {
            panic!("{summary:#?}")
        };
        assert_eq!((own.count, own.finished, own.errors), (3, 3, 1));
        let all = &summary.activity[0];
        assert_eq!((all.count, all.finished, all.errors), (4, 4, 2));
    }
}

#[test]
fn calls_of_probed_functions_have_times() {
    let (call, back, lone) = (65_536, 65_537, 65_538);
    let mut trace = Trace::recording(100, 110, |_| {});
    // The thread returned from its first call on another CPU, whose bundle is the first.
    let bundles: [&[(u64, u32)]; 2] = [
        &[(101, back), (104, back)],
        &[
            (101, call),
            (102, call),
            (103, lone),
            (106, back),
            (107, call),
        ],
    ];
    for (cpu, events) in bundles.into_iter().enumerate() {
        trace = trace.packet(|p| {
            p.nested(1, |bundle| {
                bundle.varint(1, cpu as u64);
                for (at, kind) in events {
                    event(bundle, *at, 7, *kind, |body| body.varint(1, 0x40));
                }
                if cpu == 1 {
                    event(bundle, 109, 7, 238, |exit| exit.varint(2, 7));
                }
                for (number, name, field) in [
                    (call, "work", "__probe_ip"),
                    (back, "work__return", "__probe_ret_ip"),
                    (lone, "lone", "__probe_ip"),
                ] {
                    bundle.nested(11, |described| {
                        described.varint(1, number.into());
                        described.nested(2, |event| {
                            event.string(1, name);
                            event.nested(2, |part| part.string(1, field));
                        });
                        described.string(3, "ferretto_7");
                    });
                }
            });
        });
    }
    let summary = trace.summary();
    let rows = summary.activity.iter();
    let rows = rows.map(|it| (&*it.name, it.count, it.finished, it.total_ns, it.max_ns));
    assert_eq!(
        rows.collect::<Vec<_>>(),
        [("work", 3, 3, seconds(9), seconds(5)), ("lone", 1, 0, 0, 0)]
    );
}

#[test]
fn calls_of_the_recorder_before_the_command_are_not_its_calls() {
    let (enter, exit, executed) = (329, 330, 237);
    let (sigaction, execve, read) = (13, 59, 0);
    let summary = Trace::recording(100, 120, |_| {})
        .packet(|p| {
            p.nested(126, |attributes| {
                for (key, text, number) in [
                    ("ferretto.command", "x", 0),
                    ("ferretto.command.pid", "", 20),
                ] {
                    attributes.nested(1, |entry| {
                        entry.string(1, key);
                        match number {
                            0 => entry.string(3, text),
                            _ => entry.varint(2, 20),
                        }
                    });
                }
            });
        })
        .packet(|p| {
            p.nested(45, |info| {
                info.nested(1, |utsname| utsname.string(4, "x86_64"));
            });
        })
        .packet(|p| {
            p.nested(1, |bundle| {
                let calls = [
                    (101, enter, sigaction),
                    (102, exit, sigaction),
                    (103, enter, execve),
                    (104, executed, 0),
                    (106, exit, execve),
                    (107, enter, read),
                    (108, exit, read),
                    (109, enter, sigaction),
                    (110, exit, sigaction),
                ];
                for (at, kind, number) in calls {
                    event(bundle, at, 20, kind, |call| call.varint(1, number));
                }
            });
        })
        .summary();
    let own = summary.own_system_calls.iter();
    let mut own: Vec<_> = own.map(|it| (&*it.name, it.count, it.total_ns)).collect();
    own.sort();
    let expected = [
        ("execve", 1, seconds(3)),
        ("read", 1, seconds(1)),
        ("rt_sigaction", 1, seconds(1)),
    ];
    assert_eq!(own, expected);
    let all = summary.activity.iter().map(|it| (&*it.name, it.count));
    let mut all: Vec<_> = all.collect();
    all.sort_unstable();
    assert_eq!(all, [("execve", 1), ("read", 1), ("rt_sigaction", 2)]);
}
