//! System calls: how often the recorded command and its threads call, how often calls fail.

use std::env;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::compare::{Topic, exactly};
use crate::programs::{known, program, record};
use crate::readers::{Answers, Readers, named, nanoseconds, whole};
use crate::world::{Running, World};

/// The calls of `getppid` of each of three threads, and of `chdir` to a folder that does not exist.
const CALLS: i64 = 700;
const FAILING: i64 = 55;
const NAPS: i64 = 20;

pub(crate) const SYSCALLS: Topic = Topic {
    name: "system calls",
    numbers: 9,
};

#[test]
fn program_of_calls() {
    program("syscalls::program_of_calls", || {
        let calls = || {
            for _ in 0..CALLS {
                std::hint::black_box(rustix::process::getppid());
            }
        };
        thread::scope(|scope| {
            scope.spawn(calls);
            scope.spawn(calls);
            calls();
        });
        for _ in 0..FAILING {
            env::set_current_dir("/nonexistent/folder").expect_err("it does not exist");
        }
        let mut naps = Duration::ZERO;
        for _ in 0..NAPS {
            let begin = Instant::now();
            thread::sleep(Duration::from_millis(2));
            naps += begin.elapsed();
        }
        known("naps", naps.as_nanos());
    });
}

/// Returns a number of the system calls with this name of the recorded processes.
fn of_processes(readers: &Readers, name: &str, key: &str, pids: &[i64]) -> Answers {
    let call = named(&readers.summary["own_system_calls"], name);
    let of_summary = call.map(|call| whole(&call[key]));
    let tables = readers.tables();
    let is_own = |row: &u32| {
        let utid = tables.track.utid().get(tables.slice.track_id().get(*row));
        let upid = utid.and_then(|utid| tables.thread.upid().get(utid));
        upid.is_some_and(|upid| pids.contains(&tables.process.pid().get(upid)))
    };
    let slices = format!("sys_{name}");
    let rows = readers.rows_named(&slices).filter(is_own);
    let number = |row: u32| match key {
        "count" => 1,
        "total_ns" => tables.slice.dur().get(row).max(0),
        "errors" => {
            let args = tables.slice.arg_set_id().get(row);
            let result = args.and_then(|set| readers.arg(set, "ret"));
            i64::from(result.is_some_and(|result| (-511..0).contains(&result)))
        }
        _ => panic!("no such number"),
    };
    let of_tables = rows.map(number).sum();
    vec![("summary", of_summary), ("tables", Some(of_tables))]
}

#[test]
fn calls_of_a_command_come_first() {
    if ferretto_probes::ftrace::kernel_events().is_empty() {
        println!("skipped: kernel events are not allowed here");
        return;
    }
    let world = World::new();
    let known = record(&world, &["--syscalls"], "syscalls::program_of_calls");
    let readers = Readers::of(&world, "t");
    let pid = whole(&readers.summary["command"]["pid"]);
    let mut all = SYSCALLS.compare();
    let own = |name: &str, key: &str| of_processes(&readers, name, key, &[pid]);
    let getppid = &own("getppid", "count");
    all.number("getppid: count", exactly(3 * CALLS), getppid);
    let failed = own("getppid", "errors");
    all.number("getppid: errors", exactly(0), &failed);
    let chdir = own("chdir", "count");
    all.number("chdir: count", exactly(FAILING), &chdir);
    all.number("chdir: errors", exactly(FAILING), &own("chdir", "errors"));
    let naps = own("clock_nanosleep", "count");
    all.number("naps: count", exactly(NAPS), &naps);
    let least = NAPS * 2_000_000;
    let naps = own("clock_nanosleep", "total_ns");
    all.number("naps: total", least..=known.get("naps"), &naps);
    // Of all processes.
    let activity = readers.summary["activity"].as_array().expect("activities");
    let of_machine = |name: &str, key: &str| {
        let calls = activity.iter().filter(|of| of["kind"] == "system_call");
        let mut call = calls.filter(|of| of["name"] == name);
        vec![("summary", call.next().map(|of| whole(&of[key])))]
    };
    let mut answers = of_machine("chdir", "count");
    answers.extend(readers.slices_of_tables("sys_chdir", |of| of.count));
    all.number("chdir of all: count", FAILING.., &answers);
    let mut answers = of_machine("clock_nanosleep", "total_ns");
    let of_json = |event: &&Value| event["name"] == "sys_clock_nanosleep" && event["ph"] == "X";
    let of_json = readers.events.iter().filter(of_json);
    answers.push((
        "json",
        Some(of_json.map(|event| nanoseconds(&event["dur"])).sum()),
    ));
    all.number("naps of all: total", least.., &answers);
    let errors = of_machine("chdir", "errors");
    all.number("chdir of all: errors", FAILING.., &errors);
    all.finish();
    let text = world.run("ferretto", &["summary", "t"]).returned(0);
    let position = |text: &str, what: &str| {
        text.find(what)
            .unwrap_or_else(|| panic!("no {what}: {text}"))
    };
    let first = position(text.text(), "system calls of the command by time");
    assert!(first < position(text.text(), "system calls of the machine by time"));
}

#[test]
fn calls_of_processes_come_first() {
    if ferretto_probes::ftrace::kernel_events().is_empty() {
        println!("skipped: kernel events are not allowed here");
        return;
    }
    let world = World::new();
    let waiting = std::process::Command::new("sh")
        .args(["-c", "while :; do sleep 0.01; done"])
        .spawn();
    let waiting = Running::new(waiting.expect("there is a shell"));
    let process = i64::from(waiting.pid());
    let pid = process.to_string();
    let calls = |duration: &str| {
        let args = [
            "record",
            "-q",
            "--syscalls",
            "-d",
            duration,
            "-o",
            "t",
            "-p",
            &pid,
        ];
        world.run("ferretto", &args).returned(0);
        let readers = Readers::of(&world, "t");
        let answers = of_processes(&readers, "wait4", "count", &[process]);
        (readers, answers)
    };
    let (mut readers, mut answers) = calls("100ms");
    // On a busy machine, the shell may not get to its next call in a tenth of a second.
    for duration in ["1s", "10s"] {
        if matches!(answers.first(), Some((_, Some(1..)))) {
            break;
        }
        (readers, answers) = calls(duration);
    }
    drop(waiting);
    assert_eq!(readers.summary["pids"], serde_json::json!([process]));
    let mut all = Topic {
        name: "system calls of a process",
        numbers: 1,
    }
    .compare();
    all.number("wait4: count", 1.., &answers);
    all.finish();
    let text = world.run("ferretto", &["summary", "t"]).returned(0);
    let title = format!("system calls of process {process} by time\n");
    assert!(text.text().contains(&title), "{}", text.text());
}
