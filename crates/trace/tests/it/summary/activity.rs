//! Summaries of kernel events: system calls, disks, interrupts and probes.

use ferretto_wire::encode;

use crate::summary::made::{Trace, event, seconds};

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
