//! CPU time: of threads that compute for different times, and of their process.

use std::fs;
use std::thread;
use std::time::Instant;

use crate::compare::Topic;
use crate::programs::{Known, known, program, record};
use crate::readers::{Answers, Readers, nanoseconds, whole};
use crate::world::World;

/// The CPU time of each thread in milliseconds.
const SHARES: [u64; 4] = [40, 20, 10, 5];

pub(crate) const CPU: Topic = Topic {
    name: "CPU time",
    numbers: SHARES.len() + 1,
};

/// Returns the time that the kernel counts for this thread, in nanoseconds.
fn cpu_time() -> u64 {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").expect("proc");
    let time = stat.split_whitespace().next().expect("a number");
    time.parse().expect("a number")
}

/// Returns the time that the host took from this virtual machine, in nanoseconds, rounded down.
///
/// The kernel does not count it for a thread, but it is between two switches.
fn stolen() -> u64 {
    const TICK: u64 = 10_000_000;
    let stat = fs::read_to_string("/proc/stat").expect("proc");
    let ticks = stat.split_whitespace().nth(8);
    TICK * ticks.and_then(|it| it.parse().ok()).unwrap_or(0)
}

#[test]
fn program_of_shares() {
    program("cpu::program_of_shares", || {
        let stolen_before = stolen();
        let threads = SHARES.map(|ms| {
            thread::spawn(move || {
                while cpu_time() < ms * 1_000_000 {
                    let since = Instant::now();
                    while since.elapsed().as_micros() < 500 {
                        std::hint::spin_loop();
                    }
                }
                let link = fs::read_link("/proc/thread-self").expect("proc");
                let tid = link
                    .file_name()
                    .expect("an id")
                    .to_string_lossy()
                    .into_owned();
                (tid, cpu_time())
            })
        });
        for (number, thread) in threads.into_iter().enumerate() {
            let (tid, time) = thread.join().expect("no panic");
            known(&format!("tid {number}"), tid.parse::<i64>().expect("an id"));
            known(&format!("time {number}"), time);
        }
        known("pid", std::process::id());
        known("stolen", stolen() - stolen_before + 10_000_000);
    });
}

fn recorded() -> (Known, Readers) {
    let world = World::new();
    let known = record(&world, &["--sched"], "cpu::program_of_shares");
    let readers = Readers::of(&world, "t");
    (known, readers)
}

#[test]
fn threads_and_their_process() {
    if ferretto_probes::ftrace::kernel_events().is_empty() {
        println!("skipped: kernel events are not allowed here");
        return;
    }
    // A busy machine may lose kernel events, which the summary says. The times of threads are too
    // short then.
    let recorded = (0..5).map(|_| recorded()).find(|(_, readers)| {
        let losses = readers.summary["losses"].as_array().expect("losses");
        println!("losses: {losses:?}");
        losses.is_empty()
    });
    let (known, readers) = recorded.expect("a recording without losses");
    let mut all = CPU.compare();
    let stolen = known.get("stolen");
    let mut sum = 0;
    for (number, ms) in SHARES.iter().enumerate() {
        let time = known.get(&format!("time {number}"));
        sum += time;
        // The kernel's count differs by about a tick from the time between two switches, and a
        // thread also runs before and after its measurement.
        let slack = 5_000_000 + time / 20;
        let tid = known.get(&format!("tid {number}"));
        println!("{tid} ran at {:?}", slices(&readers, tid));
        let answers = of_thread(&readers, tid);
        all.number(
            &format!("thread of {ms} ms"),
            time - slack..=time + slack + stolen,
            &answers,
        );
    }
    let answers = of_process(&readers, known.get("pid"));
    let least = sum - sum / 20 - 5_000_000;
    all.number("process", least..=sum + 100_000_000 + stolen, &answers);
    all.finish();
}

/// Returns the start, duration and CPU of each time in which a thread ran.
fn slices(readers: &Readers, tid: i64) -> Vec<(i64, i64, u32)> {
    let tables = readers.tables();
    let (sched, thread) = (&tables.sched_slice, &tables.thread);
    let rows = 0..sched.len();
    let rows = rows.filter(|row| thread.tid().get(sched.utid().get(*row)) == tid);
    let slice = |row| {
        (
            sched.ts().get(row),
            sched.dur().get(row),
            sched.ucpu().get(row),
        )
    };
    rows.map(slice).collect()
}

/// Returns the CPU time of a thread.
fn of_thread(readers: &Readers, tid: i64) -> Answers {
    let slices = slices(readers, tid).into_iter();
    let of_tables = slices.map(|(_, dur, _)| dur.max(0)).sum();
    let threads = readers.range["threads"].as_array();
    let title = format!(" {tid}");
    let mut threads = threads.into_iter().flatten();
    let of_view = threads.find(|of| of["name"].as_str().is_some_and(|it| it.ends_with(&title)));
    let events = readers.events.iter();
    let events = events.filter(|event| event["cat"] == "sched" && event["args"]["tid"] == tid);
    let of_json = events.map(|event| nanoseconds(&event["dur"])).sum();
    vec![
        ("tables", Some(of_tables)),
        ("view", of_view.map(|of| whole(&of["cpu"]))),
        ("json", Some(of_json)),
    ]
}

/// Returns the CPU time of a process.
fn of_process(readers: &Readers, pid: i64) -> Answers {
    let tables = readers.tables();
    let (sched, thread, process) = (&tables.sched_slice, &tables.thread, &tables.process);
    let rows = (0..sched.len()).filter(|row| {
        let upid = thread.upid().get(sched.utid().get(*row));
        upid.is_some_and(|upid| process.pid().get(upid) == pid)
    });
    let of_tables = rows.map(|row| sched.dur().get(row).max(0)).sum();
    let processes = readers.summary["processes"].as_array();
    let of_summary = processes.and_then(|all| all.iter().find(|of| of["pid"] == pid));
    vec![
        ("summary", of_summary.map(|of| whole(&of["cpu_ns"]))),
        ("tables", Some(of_tables)),
    ]
}
