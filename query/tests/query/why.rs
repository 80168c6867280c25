//! The table function `why_intervals`.

use ferretto_why::{Shares, Why};

use crate::common::{Random, Session, import, over};

/// Thread `a` waits for a lock of thread `b` for 3 µs, and then 1 µs for the CPU.
const LOCK: &str = r#"
packet { system_info { utsname { sysname: "Linux" release: "6.1.0" machine: "x86_64" } } }
packet { trusted_packet_sequence_id: 1 ftrace_events { cpu: 0
  event { timestamp: 1000 pid: 0 sched_switch { prev_pid: 0 prev_comm: "swapper/0"
    prev_state: 0 next_pid: 1 next_comm: "a" next_prio: 120 } }
  event { timestamp: 1900 pid: 1 sys_enter { id: 202 args: 4096 args: 128 } }
  event { timestamp: 2000 pid: 1 sched_switch { prev_pid: 1 prev_comm: "a" prev_state: 1
    next_pid: 2 next_comm: "b" next_prio: 120 } }
  event { timestamp: 5000 pid: 2 sched_waking { comm: "a" pid: 1 prio: 120 target_cpu: 0 } }
  event { timestamp: 6000 pid: 2 sched_switch { prev_pid: 2 prev_comm: "b" prev_state: 1
    next_pid: 1 next_comm: "a" next_prio: 120 } }
  event { timestamp: 6100 pid: 1 sys_exit { id: 202 ret: 0 } }
  event { timestamp: 7000 pid: 1 sched_switch { prev_pid: 1 prev_comm: "a" prev_state: 1
    next_pid: 0 next_comm: "swapper/0" next_prio: 120 } } } }"#;

const CAUSES: &str = "FROM thread t, why_intervals(t.utid, 1000, 6000) w WHERE t.name = 'a'";

#[test]
fn causes_are_rows() {
    let mut s = over(LOCK);
    let columns = "w.ts, w.dur, (SELECT name FROM thread WHERE utid = w.utid), w.cause, w.name, \
                   w.wait_kind, (SELECT name FROM thread WHERE utid = w.other_utid), w.depth, \
                   w.own_wait_kind, (SELECT name FROM thread WHERE utid = w.own_waker_utid)";
    assert_eq!(
        s.rows(&format!("SELECT {columns} {CAUSES}")),
        [
            r#"1000,900,"a","user","[NULL]","[NULL]","[NULL]",0,"[NULL]","[NULL]""#,
            r#"1900,100,"a","system-call","sys_futex","[NULL]","[NULL]",0,"[NULL]","[NULL]""#,
            r#"2000,3000,"b","user","[NULL]","[NULL]","[NULL]",1,"lock","b""#,
            r#"5000,1000,"a","cpu-behind","[NULL]","[NULL]","b",0,"[NULL]","[NULL]""#,
            r#"6000,100,"a","system-call","sys_futex","[NULL]","[NULL]",0,"[NULL]","[NULL]""#,
            r#"6100,900,"a","user","[NULL]","[NULL]","[NULL]",0,"[NULL]","[NULL]""#,
        ]
    );
}

#[test]
fn unusable_intervals_have_no_causes() {
    let mut s = over(LOCK);
    for interval in [
        "NULL, 1000, 1",
        "1, NULL, 1",
        "-1, 1000, 1",
        "1, 1000, 0",
        "1, 9000, -1",
    ] {
        let sql = format!("SELECT count() FROM why_intervals({interval})");
        assert_eq!(s.rows(&sql), ["0"], "{interval}");
    }
    // A thread without events.
    assert_eq!(
        s.rows("SELECT cause, dur FROM why_intervals(4294967295, 0, 9223372036854775807)"),
        [r#""lost",9223372036854775807"#]
    );
}

/// The text of a trace of threads that wait for each other, of a seed.
fn schedule(seed: u64) -> String {
    let mut random = Random(seed);
    let mut text = String::from(
        "packet { system_info { utsname { sysname: \"Linux\" release: \"6.1.0\" } } }\n\
         packet { trusted_packet_sequence_id: 1 ftrace_events { cpu: 0\n",
    );
    // Threads 1 to 5 share a CPU. Those that are blocked are woken by the running one.
    let mut runnable = vec![1_u32, 2, 3, 4, 5];
    let (mut blocked, mut running, mut time) = (Vec::new(), 0_u32, 1000_u64);
    for _ in 0..400 {
        time += 1 + random.below(50);
        if running != 0 && !blocked.is_empty() && random.below(2) == 0 {
            let woken: u32 = blocked.swap_remove(random.below(blocked.len() as u64) as usize);
            text += &format!(
                "event {{ timestamp: {time} pid: {running} sched_waking {{ comm: \"t{woken}\" \
                 pid: {woken} prio: 120 target_cpu: 0 }} }}\n"
            );
            runnable.push(woken);
            continue;
        }
        let is_blocked = running != 0 && random.below(3) != 0;
        if runnable.is_empty() {
            continue;
        }
        let next = runnable.swap_remove(random.below(runnable.len() as u64) as usize);
        let state = u32::from(is_blocked);
        text += &format!(
            "event {{ timestamp: {time} pid: {running} sched_switch {{ prev_comm: \"t{running}\" \
             prev_pid: {running} prev_prio: 120 prev_state: {state} next_comm: \"t{next}\" \
             next_pid: {next} next_prio: 120 }} }}\n"
        );
        if running != 0 {
            if is_blocked {
                blocked.push(running)
            } else {
                runnable.push(running)
            }
        }
        running = next;
    }
    text + "} }"
}

#[test]
fn rows_add_up_as_the_command_does() {
    for seed in 1..6 {
        let trace = import(&schedule(seed));
        let why = Why::new(&trace);
        let mut s = Session::of(&trace);
        let bounds = trace.tables().trace_bounds.row(0).expect("bounds");
        let (start, end) = (bounds.start_ts, bounds.end_ts);
        for thread in 1..6 {
            let shares = Shares::new([&why.explain(thread, start..end)]);
            assert_eq!(shares.ns, end - start);
            let from = format!("FROM why_intervals({thread}, {start}, {})", end - start);
            let sum = s.rows(&format!("SELECT sum(dur) {from}"));
            assert_eq!(sum, [(end - start).to_string()]);
            for share in &shares.causes {
                let ferretto_why::Cause::Wait(kind, Some(waker)) = share.cause else {
                    continue;
                };
                let sum = s.rows(&format!(
                    "SELECT sum(dur) {from} WHERE own_wait_kind = '{}' AND own_waker_utid = {waker}",
                    kind.name()
                ));
                assert_eq!(sum, [share.ns.to_string()]);
            }
        }
    }
}

/// The time of an interval for which the critical path of SQL names a thread.
#[derive(Debug, Default)]
struct Compared {
    /// The path and the causes name different threads.
    different: i64,
    /// The path ends at a blocked thread: that one's waker has its wake-up before the trace, or the
    /// thread its next one after it.
    unexplained: i64,
    all: i64,
}

fn compare(s: &mut Session, thread: u32, start: i64, dur: i64) -> Compared {
    let rows = s.rows(&format!(
        "INCLUDE PERFETTO MODULE sched.thread_executing_span;
         INCLUDE PERFETTO MODULE intervals.intersect;
         DROP TABLE IF EXISTS _path; DROP TABLE IF EXISTS _cause;
         CREATE PERFETTO TABLE _path AS SELECT row_number() OVER () AS id, ts, dur, utid
         FROM _thread_executing_span_critical_path({thread}, {start}, {dur});
         CREATE PERFETTO TABLE _cause AS SELECT row_number() OVER () AS id, ts, dur, utid
         FROM why_intervals({thread}, {start}, {dur});
         SELECT sum(iif(differs AND NOT is_blocked, dur, 0)),
           sum(iif(differs AND is_blocked, dur, 0)), sum(dur)
         FROM (
           SELECT i.dur, p.utid <> c.utid AS differs, EXISTS (
             SELECT 1 FROM thread_state t
             WHERE t.utid = p.utid AND t.state = 'S' AND t.ts <= i.ts AND t.ts + t.dur > i.ts
           ) AS is_blocked
           FROM _interval_intersect!((_path, _cause), ()) i
           JOIN _path p ON p.id = i.id_0 JOIN _cause c ON c.id = i.id_1
         )"
    ));
    let numbers = rows[0].split(',').map(|it| it.parse().unwrap_or(0));
    let numbers: Vec<i64> = numbers.collect();
    Compared {
        different: numbers[0],
        unexplained: numbers[1],
        all: numbers[2],
    }
}

#[test]
fn causes_and_critical_paths_name_the_same_threads() {
    let mut sum = Compared::default();
    for seed in 1..11 {
        let trace = import(&schedule(seed));
        let mut s = Session::of(&trace);
        let bounds = trace.tables().trace_bounds.row(0).expect("bounds");
        for thread in 1..6 {
            let dur = bounds.end_ts - bounds.start_ts;
            let compared = compare(&mut s, thread, bounds.start_ts, dur);
            assert_eq!(compared.different, 0, "thread {thread} of seed {seed}");
            sum.unexplained += compared.unexplained;
            sum.all += compared.all;
        }
    }
    assert!(
        sum.all > 100_000 && sum.unexplained * 20 < sum.all,
        "{sum:?}"
    );
}
