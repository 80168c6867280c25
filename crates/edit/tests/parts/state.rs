//! The initial state of a part, for different events and orders of events.

use std::io::Cursor;

use ferretto_edit::{Every, Window, cut};
use ferretto_proto::fields::ftrace_event_bundle::{self as bundle, compact_sched as compact};
use ferretto_proto::fields::{
    ftrace_event as event, process_stats, process_tree, sched_process_free_ftrace_event as free,
    sched_switch_ftrace_event as switch, task_newtask_ftrace_event as newtask, thread_descriptor,
    trace_packet as packet, tracing_service_event as service, track_event,
};
use ferretto_tables::{Options, Trace};
use ferretto_testing::content::{check_upstream, content_of, differences, errors};
use ferretto_trace::Limits;

use crate::recording::{MS, START, packed, snapshot, write};
use crate::split::split;

/// The thread that the tests check.
const THREAD: u64 = 40;
/// The window of the part: it begins between two events, and takes 100 ms.
const WINDOW: Window = Window {
    from: START + 95 * MS,
    to: START + 195 * MS,
};

/// An event of the scheduler, with its time in milliseconds.
enum Sched {
    /// The previous thread is runnable (`R`) or sleeps (`S`), and this one runs.
    Runs(u64, char, u64),
    /// A thread runs after another one, to which the kernel left out the switch.
    RunsAfter(u64, u64, u64),
    Wakes(u64, u64),
    /// A thread creates another one in its process.
    Creates(u64, u64),
    Ends(u64, u64),
}
use Sched::{Creates, Ends, Runs, RunsAfter, Wakes};

/// Writes a bundle; the events of the CPU are complete since `begin`.
fn bundle(trace: &mut Vec<u8>, cpu: u64, begin: u64, events: &[Sched]) {
    let deltas = |times: Vec<u64>| {
        let mut last = 0;
        let ahead = |time: u64| time - std::mem::replace(&mut last, time);
        packed(times.into_iter().map(ahead).collect::<Vec<_>>())
    };
    let at = |ms: &u64| START + ms * MS;
    write(trace, 3, |out| {
        out.nested(packet::FTRACE_EVENTS, |out| {
            out.varint(bundle::CPU, cpu);
            out.varint(bundle::PREVIOUS_BUNDLE_END_TIMESTAMP, START + begin * MS);
            for counters in events {
                let (time, number) = match counters {
                    Creates(time, _) => (time, event::TASK_NEWTASK),
                    Ends(time, _) => (time, event::SCHED_PROCESS_FREE),
                    RunsAfter(time, ..) => (time, event::SCHED_SWITCH),
                    Runs(..) | Wakes(..) => continue,
                };
                out.nested(bundle::EVENT, |out| {
                    out.varint(event::TIMESTAMP, at(time));
                    let pid = match counters {
                        RunsAfter(_, before, _) => *before,
                        _ => 10 + cpu,
                    };
                    out.varint(event::PID, pid);
                    out.nested(number, |out| match counters {
                        RunsAfter(_, before, next) => {
                            out.varint(switch::PREV_PID, *before);
                            out.varint(switch::PREV_PRIO, 120);
                            out.varint(switch::PREV_STATE, 1);
                            out.varint(switch::NEXT_PID, *next);
                            out.varint(switch::NEXT_PRIO, 120);
                        }
                        Ends(_, thread) => {
                            out.string(free::COMM, "name");
                            out.varint(free::PID, *thread);
                        }
                        Creates(_, thread) | Wakes(_, thread) | Runs(_, _, thread) => {
                            out.varint(newtask::PID, *thread);
                            out.string(newtask::COMM, "name");
                            out.varint(newtask::CLONE_FLAGS, 0x10000);
                        }
                    });
                });
            }
            out.nested(bundle::COMPACT_SCHED, |out| {
                out.string(compact::INTERN_TABLE, "name");
                let runs = events.iter().filter_map(|event| match event {
                    Runs(time, state, next) => Some((at(time), u64::from(*state == 'S'), *next)),
                    _ => None,
                });
                let runs: Vec<_> = runs.collect();
                let times = runs.iter().map(|it| it.0).collect();
                out.bytes(compact::SWITCH_TIMESTAMP, &deltas(times));
                out.bytes(
                    compact::SWITCH_PREV_STATE,
                    &packed(runs.iter().map(|it| it.1)),
                );
                out.bytes(
                    compact::SWITCH_NEXT_PID,
                    &packed(runs.iter().map(|it| it.2)),
                );
                let same = |number: u64, count| packed(vec![number; count]);
                out.bytes(compact::SWITCH_NEXT_PRIO, &same(120, runs.len()));
                out.bytes(compact::SWITCH_NEXT_COMM_INDEX, &same(0, runs.len()));
                let wakes = events.iter().filter_map(|event| match event {
                    Wakes(time, thread) => Some((at(time), *thread)),
                    _ => None,
                });
                let wakes: Vec<_> = wakes.collect();
                let times = wakes.iter().map(|it| it.0).collect();
                out.bytes(compact::WAKING_TIMESTAMP, &deltas(times));
                out.bytes(compact::WAKING_PID, &packed(wakes.iter().map(|it| it.1)));
                out.bytes(compact::WAKING_TARGET_CPU, &same(1, wakes.len()));
                out.bytes(compact::WAKING_PRIO, &same(120, wakes.len()));
                out.bytes(compact::WAKING_COMM_INDEX, &same(0, wakes.len()));
                out.bytes(compact::WAKING_COMMON_FLAGS, &same(0, wakes.len()));
            });
        });
    });
}

/// Writes the memory of a process at a time in milliseconds.
fn statistics(trace: &mut Vec<u8>, time: u64, pid: u64) {
    write(trace, 3, |out| {
        out.varint(packet::TIMESTAMP, START + time * MS);
        out.nested(packet::PROCESS_STATS, |out| {
            out.nested(process_stats::PROCESSES, |out| {
                out.varint(process_stats::process::PID, pid);
                out.varint(process_stats::process::VM_RSS_KB, pid + time);
            });
        });
    });
}

/// Compares the part with the whole, in which the thread has these states.
#[track_caller]
fn compare(whole: &[u8], expected: &[&str]) {
    let mut part = Vec::new();
    cut(
        Cursor::new(whole),
        WINDOW,
        Limits::default(),
        [9; 16],
        &mut part,
    )
    .unwrap();
    let (of_whole, of_part) = (content_of(whole, WINDOW), content_of(&part, WINDOW));
    let states = |content_of: &[String]| -> Vec<String> {
        let of_thread = format!("state {THREAD} ");
        let states = content_of
            .iter()
            .filter_map(|line| line.strip_prefix(&of_thread));
        states.map(str::to_owned).collect()
    };
    assert_eq!(states(&of_whole), expected, "the whole");
    assert_eq!(states(&of_part), expected, "the part");
    assert_eq!(differences(&of_whole, &of_part), "");
    let mut of_whole = errors(whole);
    of_whole.retain(|name| *name != "mismatched_sched_switch_tids");
    assert_eq!([of_whole, errors(&part)].concat(), [] as [&str; 0]);
    for trace in [whole, &part] {
        check_upstream(trace);
    }
}

/// Returns switches of a CPU between its two threads, every 20 ms, from `from` to 200 ms.
fn turns(cpu: u64, from: u64) -> Vec<Sched> {
    let times = (from + cpu..200).step_by(20).enumerate();
    times
        .map(|(turn, time)| Runs(time, 'R', 10 + cpu + 10 * (turn as u64 % 2)))
        .collect()
}

#[test]
fn a_thread_with_only_a_wake_up_is_runnable() {
    let mut whole = Vec::new();
    let mut events = turns(0, 0);
    events.extend([Wakes(50, THREAD), Wakes(150, THREAD)]);
    bundle(&mut whole, 0, 0, &events);
    bundle(&mut whole, 1, 0, &turns(1, 0));
    compare(&whole, &["R 0 to 100000000"]);
}

#[test]
fn a_thread_is_runnable_if_its_last_run_follows_the_wake_up_in_the_file() {
    let mut whole = Vec::new();
    let mut events = turns(0, 0);
    events.extend((2..9).chain([60, 70]).map(|time| Wakes(time, THREAD)));
    bundle(&mut whole, 0, 0, &events);
    let events = [
        Runs(1, 'R', 11),
        Runs(30, 'R', THREAD),
        Runs(40, 'S', 11),
        Runs(130, 'R', THREAD),
        Runs(140, 'S', 11),
    ];
    bundle(&mut whole, 1, 0, &events);
    let expected = [
        "R 0 to 35000000",
        "Running 35000000 to 45000000",
        "S 45000000 to 100000000",
    ];
    compare(&whole, &expected);
}

#[test]
fn a_new_thread_is_runnable_also_if_a_process_tree_describes_it() {
    let mut whole = Vec::new();
    write(&mut whole, 3, |out| {
        out.varint(packet::TIMESTAMP, START + 60 * MS);
        out.nested(packet::PROCESS_TREE, |out| {
            out.nested(process_tree::PROCESSES, |out| {
                out.varint(process_tree::process::PID, 10);
                out.string(process_tree::process::CMDLINE, "program");
            });
            out.nested(process_tree::THREADS, |out| {
                out.varint(process_tree::thread::TID, THREAD);
                out.varint(process_tree::thread::TGID, 10);
            });
        });
    });
    let mut events = turns(0, 0);
    events.push(Creates(50, THREAD));
    bundle(&mut whole, 0, 0, &events);
    bundle(&mut whole, 1, 0, &turns(1, 0));
    compare(&whole, &["R 0 to 100000000"]);
}

/// In a ring, the events of each CPU start at a different time, and readers ignore state before the
/// latest of these.
#[test]
fn a_part_of_a_ring_has_no_additional_state() {
    let mut whole = Vec::new();
    let mut events = turns(0, 0);
    events.push(Wakes(150, THREAD));
    bundle(&mut whole, 0, 0, &events);
    bundle(&mut whole, 0, 45, &[Creates(47, 50), Wakes(48, 51)]);
    let events = [Runs(10, 'R', THREAD), Runs(20, 'R', 11), Runs(90, 'R', 21)];
    bundle(&mut whole, 1, 5, &events);
    // An idle CPU.
    bundle(
        &mut whole,
        2,
        60,
        &[Runs(61, 'S', 0), Runs(62, 'S', 12), Runs(63, 'S', 0)],
    );
    compare(&whole, &["R 55000000 to 100000000"]);
}

#[test]
fn a_thread_is_runnable_if_it_is_woken_after_a_switch_that_the_kernel_left_out() {
    let mut whole = Vec::new();
    let mut events = turns(0, 0);
    events.extend([50, 80, 150].map(|time| Wakes(time, THREAD)));
    bundle(&mut whole, 0, 0, &events);
    let events = [
        Runs(1, 'R', 11),
        Runs(30, 'R', THREAD),
        RunsAfter(70, 41, 11),
    ];
    bundle(&mut whole, 1, 0, &events);
    bundle(&mut whole, 1, 0, &[Runs(180, 'R', 21)]);
    compare(&whole, &["R 0 to 100000000"]);
}

/// The end of its wait is unknown, but after the part.
#[test]
fn a_thread_is_runnable_to_the_end_before_a_switch_that_the_kernel_left_out() {
    let mut whole = Vec::new();
    let mut events = turns(0, 0);
    events.push(Wakes(150, THREAD));
    bundle(&mut whole, 0, 0, &events);
    let mut events = turns(1, 0);
    events.extend([Runs(200, 'R', 11), RunsAfter(210, THREAD, 21)]);
    bundle(&mut whole, 1, 0, &events);
    compare(&whole, &["R 55000000 to 100000000"]);
}

#[test]
fn a_later_event_from_another_cpu_determines_the_state_of_a_thread() {
    let mut whole = Vec::new();
    let events = [Runs(0, 'R', 10), Runs(50, 'R', THREAD), Runs(60, 'S', 10)];
    bundle(&mut whole, 0, 0, &events);
    // The rest of this CPU is missing.
    bundle(&mut whole, 1, 0, &[Runs(1, 'R', 11), Runs(40, 'R', THREAD)]);
    bundle(&mut whole, 0, 0, &[Runs(180, 'R', 20)]);
    compare(&whole, &["S 0 to 100000000"]);
}

#[test]
fn statistics_of_an_ended_process_are_dropped_even_if_they_follow_its_end() {
    let mut whole = Vec::new();
    let mut events = turns(0, 0);
    events.extend([Ends(50, THREAD), Ends(60, 41)]);
    bundle(&mut whole, 0, 0, &events);
    bundle(&mut whole, 1, 0, &turns(1, 0));
    // Another process reuses the id of the second one.
    for (time, pid) in [(40, THREAD), (40, 41), (70, 41), (70, 42)] {
        statistics(&mut whole, time, pid);
    }
    compare(&whole, &[]);
    let counters = content_of(&whole, WINDOW).into_iter();
    let counters: Vec<String> = counters
        .filter(|line| line.starts_with("counter"))
        .collect();
    let expected = [
        "counter mem.rss of 41 113664 before",
        "counter mem.rss of 42 114688 before",
    ];
    assert_eq!(counters, expected);
}

#[test]
fn a_part_begins_with_the_state_before_late_packets() {
    let mut whole = Vec::new();
    let service_event = |trace: &mut Vec<u8>, ms: u64| {
        write(trace, 1, |out| {
            out.varint(packet::TIMESTAMP, START + ms * MS);
            out.nested(packet::SERVICE_EVENT, |out| {
                out.bool(service::ALL_DATA_SOURCES_FLUSHED, true);
            });
        });
    };
    let mut events = turns(0, 0);
    events.push(Creates(50, THREAD));
    bundle(&mut whole, 0, 0, &events);
    // The part ends after the data of this flush.
    service_event(&mut whole, 180);
    statistics(&mut whole, 40, 42);
    service_event(&mut whole, 200);
    statistics(&mut whole, 105, 42);
    let events = [
        Runs(1, 'R', 11),
        Runs(60, 'R', THREAD),
        Runs(70, 'S', 11),
        Runs(210, 'R', 21),
    ];
    bundle(&mut whole, 1, 0, &events);
    bundle(&mut whole, 0, 0, &[Runs(220, 'R', 10)]);
    service_event(&mut whole, 420);
    let parts = split(&whole, Every::Nanoseconds(150 * MS));
    assert_eq!(parts.len(), 2);
    let trace = Trace::read(&parts[1][..], &Options::default()).unwrap();
    let threads = &trace.tables().thread;
    let rows = (0..threads.len()).filter(|row| threads.tid().get(*row) == THREAD as i64);
    assert_eq!(rows.count(), 1);
    let content_of = content_of(&parts[1], WINDOW);
    for expected in [
        format!("state {THREAD} S 0 to 100000000"),
        "counter mem.rss of 42 83968 before".to_owned(),
        "counter mem.rss of 42 150528 10000000".to_owned(),
    ] {
        assert!(content_of.contains(&expected), "{expected}: {content_of:?}");
    }
}

/// Returns a trace of an old writer: slices whose begin and end have times relative to the event
/// before.
fn relative() -> Vec<u8> {
    let mut trace = Vec::new();
    write(&mut trace, 3, |out| {
        snapshot(out, &[(6, START, false), (3, START - MS, false)]);
    });
    write(&mut trace, 7, |out| {
        out.varint(packet::SEQUENCE_FLAGS, 1);
        out.nested(packet::THREAD_DESCRIPTOR, |thread| {
            thread.varint(thread_descriptor::PID, THREAD);
            thread.varint(thread_descriptor::TID, THREAD);
            thread.varint(
                thread_descriptor::REFERENCE_TIMESTAMP_US,
                (START - MS) / 1000,
            );
            thread.varint(thread_descriptor::REFERENCE_THREAD_TIME_US, 500);
        });
    });
    for number in 0..50 {
        write(&mut trace, 7, |out| {
            out.varint(packet::SEQUENCE_FLAGS, 2);
            out.nested(packet::TRACK_EVENT, |out| {
                out.varint(track_event::TIMESTAMP_DELTA_US, 7_000);
                out.varint(track_event::THREAD_TIME_DELTA_US, 300);
                out.nested(track_event::LEGACY_EVENT, |legacy| {
                    let phase = if number % 2 == 0 { b'B' } else { b'E' };
                    legacy.varint(track_event::legacy_event::PHASE, phase.into());
                });
                out.string(track_event::NAME, "old");
            });
        });
    }
    trace
}

/// Returns the times and thread times of the slices that begin in the window.
fn thread_times(bytes: &[u8], window: Window) -> Vec<(i64, Option<i64>)> {
    let trace = Trace::read(bytes, &Options::default()).unwrap();
    let slices = &trace.tables().slice;
    let rows = (0..slices.len()).map(|row| (slices.ts().get(row), slices.thread_ts().get(row)));
    let within = |ts: i64| ts > window.from as i64 && ts < window.to as i64;
    rows.filter(|(ts, _)| within(*ts)).collect()
}

#[test]
fn events_with_relative_times_keep_their_times_in_parts() {
    let whole = relative();
    let mut part = Vec::new();
    let out = &mut part;
    cut(Cursor::new(&whole), WINDOW, Limits::default(), [9; 16], out).unwrap();
    let of_whole = content_of(&whole, WINDOW);
    let count = |start: &str| {
        of_whole
            .iter()
            .filter(|line| line.starts_with(start))
            .count()
    };
    assert_eq!((count("slice"), count("counter thread_time")), (8, 15));
    let before =
        |line: &String| line.starts_with("counter thread_time") && line.ends_with("before");
    assert!(of_whole.iter().any(before), "{of_whole:?}");
    assert_eq!(differences(&of_whole, &content_of(&part, WINDOW)), "");
    assert_eq!(thread_times(&whole, WINDOW), thread_times(&part, WINDOW));
    assert_eq!(errors(&part), [] as [&str; 0]);
    let parts = split(&whole, Every::Nanoseconds(100 * MS));
    assert!(parts.len() >= 3, "{}", parts.len());
    let all = Window {
        from: 0,
        to: i64::MAX as u64,
    };
    let mut of_parts = Vec::new();
    for part in &parts {
        assert_eq!(errors(part), [] as [&str; 0]);
        // A slice that is repeated has no thread time.
        let times = thread_times(part, all).into_iter();
        of_parts.extend(times.filter(|(_, thread)| thread.is_some()));
    }
    assert_eq!(of_parts, thread_times(&whole, all));
}
