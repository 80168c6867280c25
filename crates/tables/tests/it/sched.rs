//! Threads on CPUs and their states.

use crate::common::{import, rows, stat};
use ferretto_proto::fields::ftrace_event_bundle::compact_sched as field;
use ferretto_tables::{Loss, Lost, MissingSwitches, Values};
use ferretto_wire::{encode, encode_varint};

const SWITCHES: &str = "
    event { timestamp: 10 pid: 1 sched_switch { prev_pid: 1 prev_comm: \"a\" prev_state: 1
        next_pid: 2 next_comm: \"b\" next_prio: 120 } }
    event { timestamp: 20 pid: 2 sched_switch { prev_pid: 2 prev_comm: \"b\" prev_state: 2
        next_pid: 0 next_comm: \"swapper/0\" next_prio: 120 } }";

/// The kernel of the machine, which decides on the bits of states.
const KERNEL: &str = "packet { system_info { utsname { sysname: \"Linux\" release: \"6.1.0\" } } }";

fn on_cpu(cpu: u32, events: &str) -> String {
    format!("packet {{ trusted_packet_sequence_id: 1 ftrace_events {{ cpu: {cpu} {events} }} }}")
}

/// Returns a trace of one bundle with these columns.
fn compact_bundle(cpu: u64, names: &[&str], columns: &[(u32, &[u64])]) -> Vec<u8> {
    encode(|trace| {
        trace.nested(1, |packet| {
            packet.nested(1, |bundle| {
                bundle.varint(1, cpu);
                bundle.nested(4, |compact| {
                    for name in names {
                        compact.string(field::INTERN_TABLE, name);
                    }
                    for (number, values) in columns {
                        let mut packed = Vec::new();
                        for value in *values {
                            let mut digits = [0; 10];
                            let length = encode_varint(*value, &mut digits);
                            packed.extend_from_slice(&digits[..length]);
                        }
                        compact.bytes(*number, &packed);
                    }
                });
            });
        });
    })
}

#[test]
fn query_066_switches_are_rows_of_sched() {
    let trace = import(&on_cpu(
        0,
        &format!(
            "{SWITCHES} event {{ timestamp: 30 pid: 0 sched_switch {{ prev_pid: 0
                prev_comm: \"swapper/0\" prev_state: 0 next_pid: 1 next_comm: \"a\" next_prio: 98 }} }}"
        ),
    ));
    let columns = "ts dur utid end_state priority ucpu";
    assert_eq!(
        rows(&trace, "sched_slice", columns),
        ["10 10 1 D 120 0", "20 10 0 R 120 0", "30 -1 2 NULL 98 0"]
    );
    assert_eq!(
        rows(&trace, "thread", "tid name"),
        ["0 swapper", "2 b", "1 a"]
    );
    let raw = rows(&trace, "ftrace_event", "ts name utid ucpu");
    assert_eq!(raw[0], "10 sched_switch 2 0");
    let set = trace.tables().ftrace_event.arg_set_id().get(0);
    assert_eq!(
        crate::common::args(&trace, set),
        [
            r#"prev_comm="a""#,
            "prev_pid=1",
            "prev_prio=0",
            "prev_state=1",
            r#"next_comm="b""#,
            "next_pid=2",
            "next_prio=120"
        ]
    );
}

#[test]
fn query_067_a_thread_without_its_cpu_has_a_waiting_state() {
    let trace = import(&on_cpu(0, SWITCHES));
    let states = rows(&trace, "thread_state", "ts dur utid state ucpu");
    // Thread 1 is `a`, since the next thread of a switch is handled first.
    assert_eq!(
        states,
        ["10 -1 2 S NULL", "10 10 1 Running 0", "20 -1 1 D NULL"]
    );
}

#[test]
fn query_068_a_wake_up_ends_the_wait() {
    let trace = import(&on_cpu(
        0,
        &format!(
            "{SWITCHES}
            event {{ timestamp: 25 pid: 0 sched_waking {{ pid: 2 comm: \"b\" }} }}
            event {{ timestamp: 30 pid: 0 sched_switch {{ prev_pid: 0 next_pid: 2 next_comm: \"b\" }} }}
            event {{ timestamp: 32 pid: 2 sched_waking {{ pid: 1 comm: \"a\" }} }}"
        ),
    ));
    let columns = "ts dur utid state waker_utid waker_id irq_context";
    assert_eq!(
        rows(&trace, "thread_state", columns),
        [
            "10 22 2 S NULL NULL NULL",
            "10 10 1 Running NULL NULL NULL",
            "20 5 1 D NULL NULL NULL",
            "25 5 1 R 0 NULL NULL",
            "30 -1 1 Running NULL NULL NULL",
            "32 -1 2 R 1 4 NULL"
        ]
    );
}

#[test]
fn query_069_wakeups_of_awake_threads_are_in_their_own_table() {
    let trace = import(&on_cpu(
        0,
        &format!(
            "{SWITCHES} event {{ timestamp: 25 pid: 0 sched_waking {{ pid: 2 comm: \"b\" }} }}
             event {{ timestamp: 26 pid: 0 sched_waking {{ pid: 2 comm: \"b\" }} }}"
        ),
    ));
    let columns = "ts thread_state_id utid waker_utid";
    assert_eq!(rows(&trace, "spurious_sched_wakeup", columns), ["26 3 1 0"]);
    assert_eq!(trace.tables().thread_state.len(), 4);
}

#[test]
fn query_070_preemption_and_the_reason_of_waits() {
    let trace = import(&format!(
        "{KERNEL}
         packet {{ trusted_packet_sequence_id: 1 sequence_flags: 1
            interned_data {{ kernel_symbols {{ iid: 7 str: \"do_wait\" }} }} }}
         {}",
        on_cpu(
            0,
            "event { timestamp: 10 pid: 1 sched_switch { prev_pid: 1 prev_state: 256 next_pid: 2 } }
             event { timestamp: 20 pid: 2 sched_switch { prev_pid: 2 prev_state: 2 next_pid: 1 } }
             event { timestamp: 21 pid: 1 sched_blocked_reason { pid: 2 caller: 7 io_wait: 1 } }"
        )
    ));
    let columns = "ts utid state io_wait blocked_function";
    assert_eq!(
        rows(&trace, "thread_state", columns),
        [
            "10 2 R+ NULL NULL",
            "10 1 Running NULL NULL",
            "20 1 D 1 do_wait",
            "20 2 Running NULL NULL"
        ]
    );
}

#[test]
fn query_071_an_unexpected_previous_thread_is_counted() {
    let trace = import(&on_cpu(
        0,
        "event { timestamp: 10 pid: 1 sched_switch { prev_pid: 1 next_pid: 2 } }
         event { timestamp: 20 pid: 3 sched_switch { prev_pid: 3 next_pid: 4 } }",
    ));
    assert_eq!(stat(&trace, "mismatched_sched_switch_tids"), 1);
    assert_eq!(
        rows(&trace, "sched_slice", "ts dur end_state"),
        ["10 0 NULL", "20 -1 NULL"]
    );
}

#[test]
fn a_missing_switch_leaves_the_time_before_it_unknown() {
    // Thread 2 runs at 15. Thread 3 is first seen at 30, after a switch that is missing.
    let trace = import(&on_cpu(
        1,
        "event { timestamp: 10 pid: 1 sched_switch { prev_pid: 1 prev_state: 1 next_pid: 2 } }
         event { timestamp: 15 pid: 2 sched_waking { pid: 3 } }
         event { timestamp: 30 pid: 3 sched_waking { pid: 1 } }
         event { timestamp: 40 pid: 3 sched_switch { prev_pid: 3 prev_state: 1 next_pid: 1 } }
         event { timestamp: 50 pid: 1 sched_waking { pid: 2 } }
         event { timestamp: 60 pid: 1 sched_switch { prev_pid: 1 prev_state: 1 next_pid: 2 } }",
    ));
    assert_eq!(
        rows(&trace, "sched_slice", "ts dur ucpu"),
        ["10 5 1", "40 20 1", "60 -1 1"]
    );
    let utid = |tid: i64| {
        let threads = &trace.tables().thread;
        let mut all = 0..threads.len();
        all.find(|row| threads.tid().get(*row) == tid)
            .expect("a thread")
    };
    let states = |tid| {
        let table = &trace.tables().thread_state;
        let of = (0..table.len()).filter(|row| table.utid().get(*row) == utid(tid));
        of.map(|row| {
            let state = trace.strings().text(table.state().get(row));
            (table.ts().get(row), table.dur().get(row), state)
        })
        .collect::<Vec<_>>()
    };
    // Its wake-up ends a wait that began at an unknown time, and is not one of a running thread.
    assert_eq!(
        states(2),
        [(10, 5, "Running"), (50, 10, "R"), (60, -1, "Running")]
    );
    assert_eq!(states(3), [(15, -1, "R"), (40, -1, "S")]);
    assert_eq!(trace.tables().spurious_sched_wakeup.len(), 0);
    let missing = MissingSwitches {
        ucpu: 1,
        missing: 1,
        of: 4,
    };
    assert_eq!(trace.missing_switches(), [missing]);
    let lost = Lost::Switches {
        ucpu: 1,
        from: 15,
        thread: utid(3),
        since: 30,
    };
    assert_eq!(trace.losses(), [Loss { ts: 40, lost }]);
}

#[test]
fn a_missing_switch_does_not_end_the_state_of_a_thread_on_its_next_cpu() {
    // Thread 2 left CPU 0 before 20. Only the switch from thread 3 at 30 shows that.
    let on_first = on_cpu(
        0,
        "event { timestamp: 10 pid: 1 sched_switch { prev_pid: 1 prev_state: 1 next_pid: 2 } }
         event { timestamp: 30 pid: 3 sched_switch { prev_pid: 3 prev_state: 1 next_pid: 1 } }",
    );
    let on_second = on_cpu(
        1,
        "event { timestamp: 20 pid: 4 sched_switch { prev_pid: 4 prev_state: 1 next_pid: 2 } }
         event { timestamp: 40 pid: 2 sched_switch { prev_pid: 2 prev_state: 1 next_pid: 4 } }",
    );
    let trace = import(&[on_first, on_second].concat());
    let table = &trace.tables().thread_state;
    let times_on = |ucpu| {
        let running = (0..table.len()).filter(|row| table.ucpu().get(*row) == Some(ucpu));
        let times = running.map(|row| (table.ts().get(row), table.dur().get(row)));
        times.collect::<Vec<_>>()
    };
    // It is not known to have run on the first one after 10.
    assert_eq!(times_on(0), [(10, 0), (30, -1)]);
    assert_eq!(times_on(1), [(20, 20), (40, -1)]);
    // As the slices tell.
    let slices = rows(&trace, "sched_slice", "ts dur ucpu");
    assert_eq!(slices, ["10 0 0", "20 20 1", "30 -1 0", "40 -1 1"]);
}

#[test]
fn a_switch_that_a_loss_explains_is_not_a_missing_one() {
    let before = "event { timestamp: 10 pid: 1 sched_switch { prev_pid: 1 next_pid: 2 } }";
    let after = "lost_events: true previous_bundle_end_timestamp: 10
        event { timestamp: 20 pid: 3 sched_switch { prev_pid: 3 next_pid: 4 } }";
    let trace = import(&format!("{} {}", on_cpu(0, before), on_cpu(0, after)));
    assert_eq!(stat(&trace, "mismatched_sched_switch_tids"), 1);
    assert_eq!(trace.missing_switches(), []);
    let kinds = trace.losses().iter().map(|loss| loss.lost);
    let all: Vec<Lost> = kinds.collect();
    assert_eq!(all, [Lost::KernelEvents { ucpu: Some(0) }]);
}

#[test]
fn query_072_compact_switches_equal_the_others_except_for_the_first() {
    let whole = import(&on_cpu(
        0,
        "event { timestamp: 10 pid: 1 sched_switch { prev_pid: 1 prev_comm: \"a\" prev_prio: 120
            prev_state: 1 next_pid: 2 next_comm: \"b\" next_prio: 120 } }
         event { timestamp: 15 pid: 2 common_flags: 8 sched_waking { comm: \"a\" pid: 1 prio: 120
            target_cpu: 0 } }
         event { timestamp: 20 pid: 2 sched_switch { prev_pid: 2 prev_comm: \"b\" prev_prio: 120
            prev_state: 2 next_pid: 1 next_comm: \"a\" next_prio: 98 } }",
    ));
    let compact = crate::common::import_bytes(&compact_bundle(
        0,
        &["b", "a"],
        &[
            (field::SWITCH_TIMESTAMP, &[10, 10]),
            (field::SWITCH_PREV_STATE, &[1, 2]),
            (field::SWITCH_NEXT_PID, &[2, 1]),
            (field::SWITCH_NEXT_PRIO, &[120, 98]),
            (field::SWITCH_NEXT_COMM_INDEX, &[0, 1]),
            (field::WAKING_TIMESTAMP, &[15]),
            (field::WAKING_PID, &[1]),
            (field::WAKING_TARGET_CPU, &[0]),
            (field::WAKING_PRIO, &[120]),
            (field::WAKING_COMM_INDEX, &[1]),
            (field::WAKING_COMMON_FLAGS, &[8]),
        ],
    ));
    assert_eq!(stat(&compact, "compact_sched_switch_skipped"), 1);
    assert_eq!(stat(&compact, "compact_sched_waking_skipped"), 0);
    let columns = "ts dur end_state priority ucpu";
    let rows_of = |trace| rows(trace, "sched_slice", columns);
    assert_eq!(rows_of(&compact), rows_of(&whole)[1..]);
    let states = rows(&compact, "thread_state", "ts dur state irq_context");
    assert_eq!(states, ["15 5 R 1", "20 -1 D NULL", "20 -1 Running NULL"]);
    let columns = "ts name common_flags";
    assert_eq!(
        rows(&compact, "ftrace_event", columns),
        ["15 sched_waking 8", "20 sched_switch 0"]
    );
    let of = |trace: &ferretto_tables::Trace, row| {
        let set = trace.tables().ftrace_event.arg_set_id().get(row);
        crate::common::args(trace, set)
    };
    assert_eq!(of(&compact, 1), of(&whole, 2));
    assert_eq!(of(&compact, 0), of(&whole, 1));
}

#[test]
fn query_072_wake_ups_before_any_switch_are_counted() {
    let trace = crate::common::import_bytes(&compact_bundle(
        1,
        &["a"],
        &[
            (field::WAKING_TIMESTAMP, &[15]),
            (field::WAKING_PID, &[1]),
            (field::WAKING_TARGET_CPU, &[0]),
            (field::WAKING_PRIO, &[120]),
            (field::WAKING_COMM_INDEX, &[0]),
            (field::SWITCH_TIMESTAMP, &[20]),
            (field::SWITCH_PREV_STATE, &[0]),
            (field::SWITCH_NEXT_PID, &[1]),
            (field::SWITCH_NEXT_PRIO, &[120]),
            // The index of a missing name.
            (field::SWITCH_NEXT_COMM_INDEX, &[5]),
        ],
    ));
    assert_eq!(stat(&trace, "compact_sched_waking_skipped"), 1);
    assert_eq!(stat(&trace, "compact_sched_has_parse_errors"), 1);
}

#[test]
fn query_073_idle_cpus_have_rows_and_idle_threads_have_no_states() {
    let trace = import(&on_cpu(0, SWITCHES));
    assert_eq!(rows(&trace, "sched_slice", "utid"), ["1", "0"]);
    let states = rows(&trace, "thread_state", "utid");
    assert!(!states.contains(&"0".to_owned()));
}

#[test]
fn query_074_invalid_states_are_counted() {
    let switches = on_cpu(
        0,
        "event { timestamp: 10 pid: 1 sched_switch { prev_pid: 1 prev_state: 0 next_pid: 2 } }
         event { timestamp: 20 pid: 2 sched_switch { prev_pid: 2 prev_state: 32768 next_pid: 1 } }",
    );
    let trace = import(&format!("{KERNEL} {switches}"));
    assert_eq!(stat(&trace, "task_state_invalid"), 1);
    assert_eq!(rows(&trace, "sched_slice", "end_state"), ["NULL", "NULL"]);
}

#[test]
fn a_trace_without_a_kernel_has_the_states_of_old_ones() {
    let trace = import(&on_cpu(
        0,
        "event { timestamp: 10 pid: 1 sched_switch { prev_pid: 1 prev_state: 0 next_pid: 2 } }
         event { timestamp: 20 pid: 2 sched_switch { prev_pid: 2 prev_state: 256 next_pid: 1 } }
         event { timestamp: 30 pid: 1 sched_switch { prev_pid: 1 prev_state: 2048 next_pid: 2 } }",
    ));
    assert_eq!(
        rows(&trace, "sched_slice", "end_state"),
        ["W", "R+", "NULL"]
    );
}

#[test]
fn a_new_task_is_runnable() {
    let created = "event { timestamp: 10 pid: 1 task_newtask { pid: 5 comm: \"x\" } }";
    let trace = import(&on_cpu(0, &format!("{created} {SWITCHES}")));
    let columns = "ts state waker_utid irq_context";
    assert_eq!(rows(&trace, "thread_state", columns)[0], "10 R 1 0");
}

#[test]
fn states_are_unknown_without_switches() {
    let events = "event { timestamp: 10 pid: 1 task_newtask { pid: 5 comm: \"x\" } }
        event { timestamp: 11 pid: 1 sched_waking { pid: 5 comm: \"x\" } }";
    let trace = import(&on_cpu(0, events));
    assert_eq!(rows(&trace, "thread_state", "ts"), [] as [&str; 0]);
}

#[test]
fn states_are_correct_after_a_loss() {
    let trace = import(&on_cpu(
        0,
        "event { timestamp: 10 pid: 1 sched_switch { prev_pid: 1 prev_state: 1 next_pid: 2 } }
         event { timestamp: 20 pid: 1 sched_switch { prev_pid: 1 prev_state: 2 next_pid: 3 } }",
    ));
    // The wait of thread 1 has an unknown duration, since its next run was lost.
    let states = rows(&trace, "thread_state", "ts dur utid state");
    assert_eq!(
        states,
        [
            "10 -1 2 S",
            "10 0 1 Running",
            "20 -1 2 D",
            "20 -1 3 Running"
        ]
    );
}

#[test]
fn events_with_equal_times_are_sorted_by_cpu() {
    let on = |cpu| {
        on_cpu(
            cpu,
            "event { timestamp: 10 pid: 1 sched_switch { prev_pid: 1 next_pid: 2 } }",
        )
    };
    let trace = import(&format!("{} {}", on(1), on(0)));
    assert_eq!(rows(&trace, "sched_slice", "ts ucpu"), ["10 0", "10 1"]);
}

#[test]
fn tables_of_the_scheduler_are_computed_on_first_use() {
    let waking = "event { timestamp: 25 pid: 0 sched_waking { pid: 2 comm: \"b\" } }";
    let bytes = crate::common::encode(&on_cpu(0, &format!("{SWITCHES} {waking}")));
    let trace = ferretto_tables::Trace::read(&bytes[..], &ferretto_tables::Options::default());
    let trace = trace.expect("a trace");
    let tables = trace.tables();
    assert!(!tables.sched_slice.is_computed() && !tables.thread_state.is_computed());
    assert!(!tables.ftrace_event.is_computed());
    let (before, most) = (trace.memory(), trace.max_memory());
    assert_eq!(tables.thread_state.len(), 4);
    assert!(tables.thread_state.is_computed() && !tables.sched_slice.is_computed());
    assert!(trace.memory() > before);
    // Rows that are not derived from the log lie between derived ones.
    assert_eq!(
        rows(&trace, "ftrace_event", "ts name"),
        ["10 sched_switch", "20 sched_switch", "25 sched_waking"]
    );
    let keys = rows(&trace, "args", "arg_set_id key int_value string_value");
    let of_event = |row| {
        let set = tables.ftrace_event.arg_set_id().get(row).expect("a set");
        let set = format!("{set} ");
        keys.iter().filter(move |key| key.starts_with(&set)).count()
    };
    assert_eq!([0, 1, 2].map(of_event), [7, 7, 2]);
    assert_eq!(tables.args.len() as usize, keys.len());
    for table in tables.all() {
        assert_eq!(table.column(0).expect("a column").len(), table.rows());
    }
    assert!(trace.memory() <= most, "{} {most}", trace.memory());
    assert_eq!(trace.max_memory(), trace.memory());
}

#[test]
fn reading_columns_in_ranges_equals_reading_row_by_row() {
    let print = "event { timestamp: 12 pid: 1 print { buf: \"B|1|a\" } }";
    let waking = "event { timestamp: 25 pid: 0 sched_waking { pid: 2 comm: \"b\" prio: 120 } }";
    let trace = import(&on_cpu(0, &format!("{SWITCHES} {print} {waking}")));
    let mut packed = 0;
    for table in trace.tables().all() {
        for (index, spec) in table.spec().columns.iter().enumerate() {
            let column = table.column(index).expect("a column");
            let Values::Numbers(numbers) = column.values else {
                continue;
            };
            packed += 1;
            assert_eq!((numbers.kind(), numbers.len()), (spec.kind, table.rows()));
            let single: Vec<_> = (0..numbers.len()).map(|row| numbers.get(row)).collect();
            for start in 0..=single.len() {
                for end in start..=single.len() + 1 {
                    let mut read = vec![17];
                    numbers.read(start..end, &mut read);
                    let name = spec.name;
                    assert_eq!(read[1..], single[start..end.min(single.len())], "{name}");
                }
            }
        }
    }
    assert!(packed > 20, "{packed}");
}
