//! Summaries of kernel events: CPU time and losses.

use ferretto_trace::Summary;
use ferretto_trace::summary::Cause;

use crate::summary::made::{Packet, Trace, compact, event, find, seconds};

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
