//! Resources of the recorded command: memory, page faults, CPU time, written bytes, processes.

use std::fs;
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::compare::{Comparison, Topic, exactly};
use crate::disks::disk_of;
use crate::programs::{known, program, record};
use crate::readers::{Answers, Readers, whole};
use crate::world::{Finished, Running, World};

/// The memory that the program takes, in bytes, and the number of its naps.
const MEMORY: usize = 300 << 20;
const NAPS: usize = 30;
/// The bytes that `dd` writes.
const WRITTEN: i64 = 105_000_000;
const FORKS_OF_SHELL: i64 = 25;
/// The user nobody.
const NOBODY: u32 = 65_534;

pub(crate) const PAGES: Topic = Topic {
    name: "memory, faults and CPU time of a command",
    numbers: 12,
};

pub(crate) const WRITES: Topic = Topic {
    name: "bytes written by a command",
    numbers: 2,
};

pub(crate) const FORKS: Topic = Topic {
    name: "processes of a command",
    numbers: 2,
};

/// Returns the sum of a line of all threads' `status`.
fn of_threads(name: &str) -> u64 {
    let threads = fs::read_dir("/proc/self/task").expect("proc");
    let texts =
        threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("status")).ok());
    texts.filter_map(|text| line(&text, name)).sum()
}

fn line(text: &str, name: &str) -> Option<u64> {
    let rest = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[test]
fn program_of_pages() {
    program("resources::program_of_pages", || {
        let mut memory = vec![0_u8; MEMORY];
        for page in memory.chunks_mut(4096) {
            page[0] = 1;
        }
        std::hint::black_box(&memory);
        for _ in 0..NAPS {
            thread::sleep(Duration::from_millis(1));
        }
        let stat = fs::read_to_string("/proc/self/stat").expect("proc");
        let (_, fields) = stat.rsplit_once(')').expect("a name");
        let field = |index: usize| -> u64 {
            let field = fields.split_whitespace().nth(index).expect("a field");
            field.parse().expect("a number")
        };
        known("minor faults", field(7));
        known("major faults", field(9));
        let status = fs::read_to_string("/proc/self/status").expect("proc");
        known(
            "peak memory",
            line(&status, "VmHWM").expect("a number") * 1024,
        );
        known("waits", of_threads("voluntary_ctxt_switches"));
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        known("CPU time", cpu.tv_sec * 1_000_000_000 + cpu.tv_nsec);
        known("pid", std::process::id());
    });
}

/// Returns a number of the summary's resources, and of the attributes in the tables.
fn of_command(readers: &Readers, keys: &[&str]) -> Answers {
    let resources = &readers.summary["command"]["resources"];
    let of_summary = keys.iter().map(|key| match *key {
        "peak_memory" => resources["peak_memory_bytes"].as_i64(),
        key => resources[key].as_i64(),
    });
    let of_summary = of_summary.sum();
    let metadata = &readers.tables().metadata;
    let of_tables = |key: &&str| {
        let name = format!("trace_attribute.ferretto.command.{key}");
        let mut rows = 0..metadata.len();
        let row = rows.find(|row| readers.text(metadata.name().get(*row)) == name)?;
        metadata.int_value().get(row)
    };
    let of_tables = keys.iter().map(of_tables).sum();
    vec![("summary", of_summary), ("tables", of_tables)]
}

/// Returns the values of a counter that add up to a total.
fn sum_of_counter(readers: &Readers, name: &str, number: impl Fn(&[f64]) -> f64) -> Answers {
    let (counters, tracks) = (&readers.tables().counter, &readers.tables().track);
    let of_name =
        |row: &u32| readers.text(tracks.name().get(counters.track_id().get(*row))) == name;
    let of_tables = (0..counters.len()).filter(of_name);
    let of_tables: Vec<f64> = of_tables.map(|row| counters.value().get(row)).collect();
    let events = readers.events.iter();
    let events = events.filter(|event| event["ph"] == "C" && event["name"] == name);
    let of_json: Vec<f64> = events
        .filter_map(|event| event["args"]["value"].as_f64())
        .collect();
    let answer = |values: &[f64]| (!values.is_empty()).then(|| number(values).round() as i64);
    vec![("tables", answer(&of_tables)), ("json", answer(&of_json))]
}

/// Returns the difference between the last value and the first one.
fn growth(values: &[f64]) -> f64 {
    values.last().unwrap_or(&0.0) - values.first().unwrap_or(&0.0)
}

/// Runs a command, as another user if `user` is set.
fn run(world: &World, args: &[&str], user: Option<u32>) -> Finished {
    let mut command: Command = world.command("ferretto", args);
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    Running::new(command.spawn().expect("ferretto starts")).finish()
}

#[test]
fn memory_faults_and_times() {
    let mut all = PAGES.compare();
    compare(&[], &mut all);
    // The command is held until the profiler is ready.
    compare(&["--perf"], &mut all);
    let faults = |args: &[&str]| {
        let world = World::new();
        let args = [&["record", "-q", "-o", "t"], args, &["--", "true"]].concat();
        world.run("ferretto", &args).returned(0);
        of_command(&Readers::of(&world, "t"), &["minor_faults"])
    };
    let plain = faults(&[])
        .first()
        .and_then(|(_, count)| *count)
        .unwrap_or(0);
    all.number(
        "faults of true --perf",
        plain - 60..=plain + 150,
        &faults(&["--perf"]),
    );
    all.finish();
}

fn compare(args: &[&str], all: &mut Comparison) {
    let world = World::new();
    let known = record(&world, args, "resources::program_of_pages");
    let readers = Readers::of(&world, "t");
    let numbers = [
        ("peak memory", &["peak_memory"][..], 0, 4 << 20),
        ("minor faults", &["minor_faults"], 2000, 400),
        ("major faults", &["major_faults"], 50, 50),
        ("waits", &["voluntary_switches"], 50, 100),
        (
            "CPU time",
            &["user_ns", "system_ns"],
            60_000_000,
            60_000_000,
        ),
    ];
    for (name, keys, before, after) in numbers {
        // The program's own numbers have those of a recorder that was to become it. It goes on for
        // a moment after it has read them.
        let before = if args.is_empty() { 0 } else { before };
        let range = known.get(name) - before..=known.get(name) + after;
        let mut answers = of_command(&readers, keys);
        if name == "peak memory" {
            answers.push(("counter", watermark(&readers, known.get("pid"))));
        }
        let title = format!("{name} {}", args.concat());
        all.number(&title, range, &answers);
    }
    // The machine's counters are read at the start of the command and at its end, too.
    let faults = known.get("minor faults");
    let mut answers = sum_of_counter(&readers, "pgfault", growth);
    let memory = &readers.summary["memory"]["page_faults"];
    answers.push(("summary", memory.as_i64()));
    if args.is_empty() {
        all.number("faults of the machine", faults.., &answers);
    }
}

/// Returns the last value of a process's counter of its peak memory.
fn watermark(readers: &Readers, pid: i64) -> Option<i64> {
    let tables = readers.tables();
    let (counters, tracks) = (&tables.counter, &tables.track);
    let rows = (0..counters.len()).filter(|row| {
        let track = counters.track_id().get(*row);
        let upid = tracks
            .dimension_arg_set_id()
            .get(track)
            .and_then(|set| readers.arg(set, "upid"));
        let upid = upid.and_then(|upid| u32::try_from(upid).ok());
        readers.text(tracks.name().get(track)) == "mem.rss.watermark"
            && upid.is_some_and(|upid| tables.process.pid().get(upid) == pid)
    });
    rows.last().map(|row| counters.value().get(row) as i64)
}

#[test]
fn bytes_written() {
    let world = World::new();
    set_permissions(world.path(""), Permissions::from_mode(0o777)).expect("the folder is ours");
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: only root can be two users");
    }
    let mut all = WRITES.compare();
    for user in [None, is_root.then_some(NOBODY)] {
        let name = |what: &str| match user {
            Some(_) => format!("{what}, nobody"),
            None => what.to_owned(),
        };
        let file = if user.is_some() {
            "of=theirs"
        } else {
            "of=ours"
        };
        let dd = [
            "dd",
            "if=/dev/zero",
            file,
            "bs=1000000",
            "count=105",
            "conv=fsync",
        ];
        let out = if user.is_some() { "u" } else { "t" };
        let args = [
            &["record", "-q", "-o", out, "--"],
            &dd[..],
            &["status=none"],
        ]
        .concat();
        let disk = disk_of(&world.path("."));
        run(&world, &args, user).returned(0);
        let readers = Readers::of(&world, out);
        let written = of_command(&readers, &["bytes_written"]);
        all.number(&name("by system calls"), exactly(WRITTEN), &written);
        let Some((disk, before)) = disk else {
            println!("skipped: the temporary files are not on a disk");
            continue;
        };
        let written = of_command(&readers, &["disk_bytes_written"]);
        all.number(&name("to disks"), WRITTEN..=WRITTEN + (1 << 20), &written);
        let machine = disk_of(&world.path(".")).map_or(0, |(_, after)| after - before);
        let counter = format!("diskstat.[{disk}].write_amount");
        let written = sum_of_counter(&readers, &counter, |values| values.iter().sum());
        let mib = 1 << 20;
        all.number(
            &name("to the disk"),
            WRITTEN / mib..=machine / mib + 1,
            &written,
        );
    }
    all.finish();
}

#[test]
fn forks() {
    if ferretto_probes::ftrace::kernel_events().is_empty() {
        println!("skipped: kernel events are not allowed here");
        return;
    }
    let world = World::new();
    let script = format!("i=0; while [ $i -lt {FORKS_OF_SHELL} ]; do (exit 0); i=$((i+1)); done");
    let args = ["record", "-q", "-o", "t", "--", "sh", "-c", &script];
    world.run("ferretto", &args).returned(0);
    let readers = Readers::of(&world, "t");
    let command = &readers.summary["command"];
    let process = &readers.tables().process;
    let is_child = |upid: &u32| {
        let parent = process.parent_upid().get(*upid);
        parent.is_some_and(|parent| process.pid().get(parent) == whole(&command["pid"]))
    };
    let of_tables = (0..process.len()).filter(is_child).count();
    let mut all = FORKS.compare();
    let answers = [
        ("summary", Some(whole(&command["processes"]) - 1)),
        ("tables", Some(of_tables as i64)),
    ];
    all.number("children", exactly(FORKS_OF_SHELL), &answers);
    let answers = sum_of_counter(&readers, "num_forks", growth);
    all.number("forks of the machine", FORKS_OF_SHELL.., &answers);
    all.finish();
}
