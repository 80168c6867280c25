//! Kernel events besides scheduling.

use crate::common::{args, encode, import, rows, stat};
use ferretto_tables::{Options, TableId, TableSet, Trace, WantedArgs};

fn bundle(fields: &str) -> String {
    format!("packet {{ trusted_packet_sequence_id: 1 ftrace_events {{ cpu: 0 {fields} }} }}")
}

fn print(lines: &[(u64, &str)]) -> String {
    let events = lines.iter().map(|(ts, line)| {
        format!("event {{ timestamp: {ts} pid: 12 print {{ buf: \"{line}\\n\" }} }}\n")
    });
    bundle(&events.collect::<String>())
}

fn slice_args(trace: &Trace, row: u32) -> Vec<String> {
    args(trace, trace.tables().slice.arg_set_id().get(row))
}

#[test]
fn query_076_lines_of_programs_are_slices_and_counters() {
    let trace = import(&print(&[
        (10, "B|1|foo"),
        (20, "E|1"),
        (30, "C|1|x|5"),
        (40, "free text"),
    ]));
    assert_eq!(rows(&trace, "slice", "ts dur name depth"), ["10 10 foo 0"]);
    assert_eq!(rows(&trace, "counter", "ts value"), ["30 5"]);
    assert_eq!(
        rows(&trace, "track", "name type event_type upid"),
        [
            "NULL thread_execution slice NULL",
            "x atrace_counter counter 1"
        ]
    );
    assert_eq!(stat(&trace, "systrace_parse_failure"), 1);
    let threads = rows(&trace, "thread", "tid upid is_main_thread");
    assert!(threads.contains(&"12 1 0".to_owned()), "{threads:?}");
}

#[test]
fn query_077_asynchronous_lines_are_slices_of_the_process() {
    let trace = import(&print(&[
        (10, "S|1|a|7"),
        (12, "S|1|a|8"),
        (20, "F|1|a|7"),
        (30, "G|1|track|name|3"),
        (31, "H|1|track|3"),
        (40, "N|1|track|now"),
    ]));
    assert_eq!(
        rows(&trace, "slice", "ts dur name track_id"),
        ["10 10 a 0", "12 -1 a 1", "30 1 name 2", "40 0 now 3"]
    );
    assert_eq!(slice_args(&trace, 0)[0], "cookie=7");
    assert_eq!(slice_args(&trace, 2), ["utid=1u", "end_utid=1u"]);
    let tracks = rows(&trace, "track", "type name upid track_group_id");
    assert_eq!(tracks[0], tracks[1]);
    assert!(tracks[2].starts_with("atrace_async_slice_for_track track 1 "));
}

#[test]
fn query_078_lost_events_are_in_the_statistics() {
    let trace = import(&bundle("lost_events: true"));
    let stats = rows(&trace, "stats", "name idx value severity");
    assert!(stats.contains(&"ftrace_cpu_has_data_loss 0 1 data_loss".to_owned()));
}

#[test]
fn query_079_events_before_all_cpus_have_data_are_raw_only() {
    let switch = |ts: u64| {
        format!(
            "event {{ timestamp: {ts} pid: 1 sched_switch {{ prev_pid: 1 next_pid: 1 }} }}
             event {{ timestamp: {ts} pid: 1 cpu_idle {{ state: 1 cpu_id: 0 }} }}"
        )
    };
    let trace = import(&format!(
        "{} packet {{ ftrace_events {{ cpu: 1 previous_bundle_end_timestamp: 100 }} }}",
        bundle(&format!(
            "previous_bundle_end_timestamp: 5 {} {}",
            switch(50),
            switch(150)
        ))
    ));
    assert_eq!(rows(&trace, "counter", "ts value"), ["150 1"]);
    assert_eq!(rows(&trace, "sched_slice", "ts"), ["150"]);
    let metadata = rows(&trace, "metadata", "name int_value");
    assert!(metadata.contains(&"ftrace_latest_data_start_ns 100".to_owned()));
    let raw = rows(&trace, "ftrace_event", "ts name");
    assert!(raw.contains(&"50 cpu_idle".to_owned()), "{raw:?}");
}

#[test]
fn query_080_the_table_of_raw_events_can_be_left_out() {
    let bytes = crate::common::encode(&bundle(
        "event { timestamp: 1 pid: 1 sched_switch { prev_pid: 1 next_pid: 2 } }
         event { timestamp: 2 pid: 2 irq_handler_entry { irq: 1 name: \"x\" } }",
    ));
    let options = Options {
        tables: TableSet::ALL.without(TableId::ftrace_event),
        ..Options::default()
    };
    let trace = Trace::read(&bytes[..], &options).expect("a trace");
    assert!(trace.tables().ftrace_event.is_empty());
    assert_eq!(trace.tables().sched_slice.len(), 1);
    assert_eq!(trace.tables().slice.len(), 1);
}

#[test]
fn arguments_of_calls_about_locks_can_be_read_alone() {
    // 202 is futex.
    let bytes = encode(&format!(
        "packet {{ system_info {{ utsname {{ sysname: \"Linux\" release: \"6.1.0\" machine: \"x86_64\" }} }} }}
         {}",
        bundle(
            "event { timestamp: 10 pid: 5 sys_enter { id: 0 args: 3 args: 4 } }
            event { timestamp: 15 pid: 5 sys_exit { id: 0 ret: -11 } }
            event { timestamp: 20 pid: 5 sys_enter { id: 202 args: 4096 args: 1 } }
            event { timestamp: 25 pid: 5 sys_exit { id: 202 ret: 0 } }"
        )
    ));
    let options = Options {
        args: WantedArgs::OfLocks,
        ..Options::default()
    };
    let trace = Trace::read(&bytes[..], &options).expect("a trace");
    assert_eq!(
        rows(&trace, "slice", "ts dur name"),
        ["10 5 sys_read", "20 5 sys_futex"]
    );
    assert!(slice_args(&trace, 0).is_empty());
    assert_eq!(slice_args(&trace, 1), ["args[0]=4096u", "args[1]=1u"]);
}

#[test]
fn query_082_system_calls_and_interrupts_are_slices() {
    let calls = "event { timestamp: 10 pid: 5 sys_enter { id: 0 args: 3 args: 4 } }
        event { timestamp: 15 pid: 5 sys_exit { id: 0 ret: -11 } }
        event { timestamp: 20 pid: 6 irq_handler_entry { irq: 7 name: \"eth0\" } }
        event { timestamp: 25 pid: 6 irq_handler_exit { irq: 7 ret: 1 } }
        event { timestamp: 30 pid: 6 softirq_entry { vec: 3 } }
        event { timestamp: 35 pid: 6 softirq_exit { vec: 3 } }";
    let known = import(&format!(
        "packet {{ system_info {{ utsname {{ sysname: \"Linux\" release: \"6.1.0\" machine: \"x86_64\" }} }} }}
         {}",
        bundle(calls)
    ));
    assert_eq!(
        rows(&known, "slice", "ts dur category name"),
        [
            "10 5 NULL sys_read",
            "20 5 irq IRQ (eth0)",
            "30 5 irq NET_RX"
        ]
    );
    assert_eq!(
        slice_args(&known, 0),
        ["args[0]=3u", "args[1]=4u", "ret=-11"]
    );
    assert_eq!(slice_args(&known, 1), [r#"ret="handled""#]);
    assert_eq!(slice_args(&known, 2), ["vec=3"]);
    let tracks = rows(&known, "track", "name type cpu");
    assert_eq!(
        tracks[1..],
        ["Irq Cpu 0 cpu_irq 0", "SoftIrq Cpu 0 cpu_softirq 0"]
    );
    let unknown = import(&bundle(calls));
    assert_eq!(rows(&unknown, "slice", "name")[0], "sys_0");
    let machine = rows(&known, "machine", "raw_id sysname release arch");
    assert_eq!(machine, ["0 Linux 6.1.0 x86_64"]);
}

#[test]
fn query_085_polled_and_traced_frequencies_are_one_counter() {
    let trace = import(&format!(
        "packet {{ timestamp: 5 sys_stats {{ cpufreq_khz: 1000 cpufreq_khz: 2000 }} }} {}",
        bundle("event { timestamp: 10 pid: 1 cpu_frequency { state: 1500 cpu_id: 1 } }")
    ));
    assert_eq!(
        rows(&trace, "track", "name cpu"),
        ["cpufreq 0", "cpufreq 1"]
    );
    assert_eq!(
        rows(&trace, "counter", "ts track_id value"),
        ["5 0 1000", "5 1 2000", "10 1 1500"]
    );
    let seen = rows(&trace, "cpu", "cpu");
    assert_eq!(seen.iter().filter(|cpu| *cpu != "NULL").count(), 2);
}

#[test]
fn memory_counters_of_threads_belong_to_their_process() {
    let trace = import(&format!(
        "{} packet {{ timestamp: 90 process_tree {{ processes {{ pid: 20 ppid: 1 cmdline: \"x\" }}
            threads {{ tid: 21 tgid: 20 }} }} }}",
        bundle(
            "event { timestamp: 10 pid: 21 rss_stat { member: 1 size: 4096 curr: 1 mm_id: 9 } }
             event { timestamp: 20 pid: 99 rss_stat { member: 1 size: 8192 curr: 0 mm_id: 9 } }
             event { timestamp: 30 pid: 99 rss_stat { member: 1 size: 1 curr: 0 mm_id: 8 } }
             event { timestamp: 40 pid: 98 oom_score_adj_update { pid: 98 oom_score_adj: -900 } }"
        )
    ));
    let tracks = rows(&trace, "track", "type name");
    assert_eq!(
        tracks,
        [
            "process_memory mem.rss.anon",
            "oom_score_adj_thread_fallback oom_score_adj"
        ]
    );
    assert_eq!(
        rows(&trace, "counter", "ts track_id value"),
        ["10 0 4096", "20 0 8192", "40 1 -900"]
    );
    assert_eq!(stat(&trace, "rss_stat_unknown_thread_for_mm_id"), 1);
}

#[test]
fn events_with_their_own_descriptor_become_rows_and_slices() {
    // DescriptorProto { name: "kick", field { name, number, type } … }
    let descriptor = ferretto_wire::encode(|out| {
        out.string(1, "kick");
        for (name, number, kind) in [
            ("track_event_type", 1, 13),
            ("slice_name", 2, 9),
            ("n", 3, 3),
        ] {
            out.nested(2, |field| {
                field.string(1, name);
                field.varint(3, number);
                field.varint(5, kind);
            });
        }
    });
    let event = |ts, phase: u8, name: &str| {
        ferretto_wire::encode(|out| {
            out.varint(1, ts);
            out.varint(2, 5);
            out.nested(65537, |event| {
                event.varint(1, phase.into());
                event.string(2, name);
                event.int(3, -1);
            });
        })
    };
    let bytes = ferretto_wire::encode(|out| {
        out.nested(1, |packet| {
            packet.nested(1, |bundle| {
                bundle.varint(1, 0);
                bundle.bytes(2, &event(10, b'B', "work"));
                bundle.bytes(2, &event(30, b'E', "work"));
                bundle.nested(11, |described| {
                    described.varint(1, 65537);
                    described.bytes(2, &descriptor);
                });
            });
        });
    });
    let trace = crate::common::import_bytes(&bytes);
    assert_eq!(rows(&trace, "slice", "ts dur name"), ["10 20 work"]);
    assert_eq!(
        rows(&trace, "ftrace_event", "ts name"),
        ["10 kick", "30 kick"]
    );
    let set = trace.tables().ftrace_event.arg_set_id().get(0);
    let expected = ["track_event_type=66u", r#"slice_name="work""#, "n=-1"];
    assert_eq!(args(&trace, set), expected);
    let tracks = rows(&trace, "track", "name type");
    assert_eq!(tracks, ["kick kernel_trackevent_thread_slice"]);
}

#[test]
fn query_099_statistics_of_the_kernel_are_differences() {
    let stats = |phase, lost| {
        format!(
            "packet {{ trusted_packet_sequence_id: 1 ftrace_stats {{ phase: {phase} cpu_stats {{ cpu: 2
                entries: 1 overrun: {lost} commit_overrun: {lost} dropped_events: {lost} }}
                failed_ftrace_events: \"a/b\" kprobe_stats {{ hits: {lost} misses: 0 }} }} }}"
        )
    };
    let trace = import(&format!(
        "{} {}",
        stats("START_OF_TRACE", 5),
        stats("END_OF_TRACE", 9)
    ));
    let all = rows(&trace, "stats", "name idx value severity");
    for expected in [
        "ftrace_cpu_overrun_begin 2 5 info",
        "ftrace_cpu_overrun_delta 2 4 info",
        "ftrace_cpu_commit_overrun_delta 2 4 error",
        "ftrace_cpu_dropped_events_delta 2 4 error",
        "ftrace_kprobe_hits_delta NULL 4 info",
        "ftrace_setup_errors NULL 1 notice",
    ] {
        assert!(all.contains(&expected.to_owned()), "{expected}");
    }
}

#[test]
fn malformed_bundles_are_counted() {
    let trace = import("packet { ftrace_events { } } packet { ftrace_events { cpu: 5000 } }");
    assert_eq!(stat(&trace, "ftrace_bundle_tokenizer_errors"), 2);
}

#[test]
fn functions_end_at_their_own_returns() {
    let trace = import(&bundle(
        "event { timestamp: 10 pid: 12 funcgraph_entry { depth: 0 func: 1 } }
         event { timestamp: 20 pid: 12 funcgraph_entry { depth: 1 func: 2 } }
         event { timestamp: 30 pid: 12 funcgraph_exit { depth: 1 func: 2 } }
         event { timestamp: 50 pid: 12 funcgraph_exit { depth: 0 func: 1 } }",
    ));
    assert_eq!(
        rows(&trace, "slice", "ts dur name depth"),
        ["10 40 0x1 0", "20 10 0x2 1"]
    );
}

#[test]
fn calls_that_do_not_return_end_with_their_thread() {
    // A futex that a signal ends, and an `exit_group`.
    let events = "event { timestamp: 10 pid: 2 sys_enter { id: 202 } }
        event { timestamp: 11 pid: 1 sys_enter { id: 231 } }
        event { timestamp: 15 pid: 2 sched_process_exit { pid: 2 } }
        event { timestamp: 20 pid: 0 sched_process_free { pid: 1 } }
        event { timestamp: 90 pid: 3 sys_enter { id: 0 } }";
    let trace = import(&bundle(events));
    let durations = rows(&trace, "slice", "ts dur");
    assert_eq!(durations, ["10 5", "11 9", "90 -1"]);
}

/// Returns the description of an event of a probe.
fn probe(number: u64, name: &str, field: &str) -> Vec<u8> {
    ferretto_wire::encode(|described| {
        described.varint(1, number);
        described.nested(2, |event| {
            event.string(1, name);
            event.nested(2, |part| {
                part.string(1, field);
                part.varint(3, 1);
                part.varint(5, 4);
            });
        });
        described.string(3, "ferretto_7");
    })
}

#[test]
fn calls_and_returns_of_probed_functions_are_slices() {
    let (call, back, lone) = (65536, 65537, 65538);
    // A function that calls itself, one whose return is not recorded, and one that ends with its
    // thread. The return at the start is from a call before the recording.
    let events = [
        (5, back),
        (10, call),
        (20, call),
        (22, lone),
        (30, back),
        (50, back),
        (60, call),
    ];
    let bytes = ferretto_wire::encode(|out| {
        out.nested(1, |packet| {
            packet.nested(1, |bundle| {
                bundle.varint(1, 0);
                for (time, kind) in events {
                    bundle.nested(2, |event| {
                        event.varint(1, time);
                        event.varint(2, 5);
                        event.nested(kind, |body| body.varint(1, 0x40));
                    });
                }
                bundle.nested(2, |event| {
                    event.varint(1, 90);
                    event.varint(2, 5);
                    event.nested(238, |exit| exit.varint(2, 5));
                });
                for (number, name, field) in [
                    (call, "work", "__probe_ip"),
                    (back, "work__return", "__probe_ret_ip"),
                    (lone, "lone", "__probe_ip"),
                ] {
                    bundle.bytes(11, &probe(number.into(), name, field));
                }
            });
        });
    });
    let trace = crate::common::import_bytes(&bytes);
    assert_eq!(
        rows(&trace, "slice", "ts dur name depth"),
        ["10 40 work 0", "20 10 work 1", "60 30 work 0"]
    );
}
