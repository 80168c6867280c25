//! Switches that the kernel left out.

use ferretto_tables::{Options, Trace};
use ferretto_testing::Random;
use ferretto_trace::summary::summarize;
use ferretto_why::{Cause, Schedule, StateKind, Why};
use ferretto_wire::encode;

/// An event of a thread on a CPU: its time, the thread, and the kind with its fields.
type Event = (u64, u64, Kind);

enum Kind {
    /// A switch with this state to this thread.
    Switch(u64, u64),
    /// A wake-up of this thread.
    Waking(u64),
}

fn bundle(cpu: u64, events: &[Event]) -> Vec<u8> {
    encode(|trace| {
        trace.nested(1, |packet| {
            packet.varint(10, 1);
            packet.nested(1, |bundle| {
                bundle.varint(1, cpu);
                for (time, pid, kind) in events {
                    bundle.nested(2, |event| {
                        event.varint(1, *time);
                        event.varint(2, *pid);
                        match kind {
                            Kind::Switch(state, next) => event.nested(4, |body| {
                                body.varint(2, *pid);
                                body.varint(4, *state);
                                body.varint(6, *next);
                            }),
                            Kind::Waking(woken) => event.nested(20, |body| {
                                body.varint(2, *woken);
                                body.varint(5, cpu);
                            }),
                        }
                    });
                }
            });
        });
    })
}

/// Thread 2 waits from 200 until thread 3 wakes it at 500. Thread 3 runs on CPU 1, to which the
/// kernel has left out the switch from the idle task. It is first seen there at 300. Thread 4
/// waits for the same CPU from 190 on.
fn trace() -> Trace {
    use Kind::{Switch, Waking};
    let first = [
        (100, 9, Switch(1, 2)),
        (120, 2, Waking(3)),
        (190, 2, Waking(4)),
        (200, 2, Switch(1, 0)),
        (510, 0, Switch(0, 2)),
        (600, 2, Switch(1, 9)),
    ];
    let second = [
        (150, 8, Switch(1, 0)),
        (300, 3, Waking(8)),
        (500, 3, Waking(2)),
        (550, 3, Switch(1, 4)),
        (600, 4, Switch(1, 0)),
    ];
    let bytes = [bundle(0, &first), bundle(1, &second)].concat();
    Trace::read(&bytes[..], &Options::default()).expect("a trace")
}

/// The pieces of an interval of a thread: start, end, the number of the thread, and the cause.
fn pieces(trace: &Trace, tid: i64, start: i64, end: i64) -> Vec<(i64, i64, i64, &'static str)> {
    let why = Why::new(trace);
    let explanation = why.explain(utid(trace, tid), start..end);
    let tids = trace.tables().thread.tid();
    let pieces = explanation.pieces.iter().map(|piece| {
        let cause = piece.cause.name();
        (piece.start, piece.end, tids.get(piece.thread), cause)
    });
    pieces.collect()
}

fn utid(trace: &Trace, tid: i64) -> u32 {
    let threads = &trace.tables().thread;
    let mut all = 0..threads.len();
    let found = all.find(|row| threads.tid().get(*row) == tid);
    found.expect("a thread")
}

#[test]
fn a_waker_counts_as_running_since_it_was_seen() {
    let trace = trace();
    assert_eq!(
        pieces(&trace, 2, 200, 510),
        [
            (200, 300, 3, "lost"),
            (300, 500, 3, "running"),
            (500, 510, 2, "cpu-wakeup"),
        ]
    );
}

#[test]
fn a_cpu_is_not_idle_while_switches_are_missing() {
    let trace = trace();
    assert_eq!(
        pieces(&trace, 4, 190, 550),
        [(190, 300, 4, "lost"), (300, 550, 4, "cpu-behind")]
    );
    let why = Why::new(&trace);
    let explanation = why.explain(utid(&trace, 4), 190..550);
    let behind = Cause::Behind(utid(&trace, 3));
    assert_eq!(explanation.pieces[1].cause, behind);
}

/// Thread 3 begins to run on CPU 0 and then on CPU 1, without an end of the first time.
#[test]
fn runs_of_cpus_are_those_of_the_states_where_switches_are_missing() {
    use Kind::Switch;
    let first = [(100, 9, Switch(1, 3))];
    let second = [
        (150, 8, Switch(1, 0)),
        (300, 0, Switch(0, 3)),
        (350, 3, Switch(1, 0)),
    ];
    let bytes = [bundle(0, &first), bundle(1, &second)].concat();
    let ended = Trace::read(&bytes[..], &Options::default()).expect("a trace");
    let mut lost = 0;
    for trace in [trace(), ended] {
        let why = Why::new(&trace);
        let schedule = why.schedule();
        let states = (0..schedule.threads())
            .flat_map(|thread| schedule.states(thread).iter().map(move |it| (thread, *it)));
        let again = Schedule::new(states.clone());
        for cpu in 0..2 {
            assert_eq!(schedule.runs(cpu), again.runs(cpu), "CPU {cpu}");
        }
        for (thread, state) in states.filter(|(_, state)| state.kind == StateKind::Lost) {
            let middle = state.start.midpoint(state.end);
            let runs = [0, 1].map(|cpu| schedule.run_at(cpu, middle));
            assert!(runs.iter().flatten().all(|run| run.thread != thread));
            lost += 1;
        }
    }
    assert!(lost > 0);
}

#[test]
fn missing_switches_are_named_with_their_time() {
    let trace = trace();
    let why = Why::new(&trace);
    let texts = |interval| {
        let losses = why.losses_in(&interval).into_iter();
        losses.map(|loss| (loss.ts, loss.text)).collect::<Vec<_>>()
    };
    let text = "1 switch of threads on CPU 1 (1 of 4 switches in the trace), which the kernel left \
                out: what ran there is unknown for";
    assert_eq!(texts(100..600), [(150, format!("{text} 400 ns"))]);
    assert_eq!(texts(200..250), [(200, format!("{text} 50 ns"))]);
    assert_eq!(texts(560..600), []);
}

#[test]
fn the_time_after_thousands_of_missing_switches_is_still_unknown() {
    use Kind::{Switch, Waking};
    // Every second switch to thread 3 is missing.
    let mut events = vec![(100, 9, Switch(1, 0))];
    for step in 0..40_000 {
        let time = 1000 + 10 * step;
        events.push((time, 3, Switch(1, 0)));
    }
    // Thread 4 waits for the CPU.
    let time = 1000 + 10 * 40_000;
    let other = [
        (time - 5, 5, Switch(1, 6)),
        (time, 6, Waking(4)),
        (time + 100, 6, Switch(1, 0)),
    ];
    events.push((time + 20, 3, Switch(1, 4)));
    events.push((time + 50, 4, Switch(1, 0)));
    let bytes = [bundle(0, &events), bundle(1, &other)].concat();
    let trace = Trace::read(&bytes[..], &Options::default()).expect("a trace");
    assert_eq!(of_stats(&trace), [(0, 40_001, 80_004)]);
    assert_eq!(
        pieces(&trace, 4, time as i64, time as i64 + 20),
        [(time as i64, time as i64 + 20, 4, "lost")]
    );
}

/// Returns the missing switches and all, by CPU, as the table `stats` has them.
fn of_stats(trace: &Trace) -> Vec<(i64, i64, i64)> {
    let stats = &trace.tables().stats;
    let of = |name: &str| -> Vec<(i64, i64)> {
        let rows = 0..stats.len();
        let rows = rows.filter(|row| trace.strings().text(stats.name().get(*row)) == name);
        rows.map(|row| (stats.idx().get(row).expect("a CPU"), stats.value().get(row)))
            .collect()
    };
    let all = of("sched_switches").into_iter();
    let missing = of("sched_switches_missing").into_iter();
    let both = missing.zip(all).map(|((cpu, missing), (of, all))| {
        assert_eq!(cpu, of);
        (cpu, missing, all)
    });
    both.collect()
}

#[test]
fn all_readers_count_the_same_missing_switches() {
    assert_eq!(of_stats(&trace()), [(1, 1, 4)]);
    let mut random = Random(1);
    for _ in 0..50 {
        let mut time = 100;
        let mut current = [0_u64; 3];
        let bundles: Vec<_> = (0..60)
            .map(|_| {
                let cpu = random.below(3);
                let mut events: Vec<Event> = Vec::new();
                for _ in 0..random.below(4) {
                    time += 1 + random.below(9) as u64;
                    if random.one_in(6) {
                        current[cpu] = random.below(5) as u64;
                    }
                    let (prev, next) = (current[cpu], random.below(5) as u64);
                    events.push((time, prev, Kind::Switch(1, next)));
                    current[cpu] = next;
                }
                bundle(cpu as u64, &events)
            })
            .collect();
        let bytes = bundles.concat();
        let trace = Trace::read(&bytes[..], &Options::default()).expect("a trace");
        let summary = summarize(&bytes[..]).expect("a trace");
        let cpus = summary.cpus.iter().filter(|cpu| cpu.missing_switches > 0);
        let of_summary = cpus.map(|cpu| {
            let missing = cpu.missing_switches as i64;
            let all = cpu.switches.expect("a number") as i64 + missing;
            (i64::from(cpu.cpu), missing, all)
        });
        assert_eq!(of_stats(&trace), of_summary.collect::<Vec<_>>());
    }
}
