//! Times off the CPU: the callstacks of a thread add up to the time that it waited.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::compare::{Topic, about, exactly};
use crate::programs::{Known, known, program, record};
use crate::readers::{Readers, whole};
use crate::world::World;

/// The numbers of sleeping threads, and of waits of each.
const SLEEPERS: [(usize, usize, u64); 3] = [(1, 40, 5), (6, 20, 5), (24, 10, 2)];

pub(crate) const WAITS: Topic = Topic {
    name: "off-CPU times",
    numbers: 3 * SLEEPERS.len() + 5,
};

/// Runs threads, and prints the time that each had to wait, and the time that it lived.
///
/// Its own clock around a sleep is no measure: a host that takes the CPU from a virtual machine, or
/// an interrupt, makes that time longer without a wait.
fn run(threads: usize, work: impl Fn() -> Duration + Send + Sync + 'static) {
    let work = Arc::new(work);
    let threads: Vec<_> = (0..threads)
        .map(|_| {
            let (begin, work) = (Instant::now(), Arc::clone(&work));
            let thread = thread::spawn(move || (this_thread(), work()));
            (begin, thread)
        })
        .collect();
    for (begin, thread) in threads {
        let (tid, waited) = thread.join().expect("no panic");
        known(&format!("{tid} waited"), waited.as_nanos());
        known(&format!("{tid} lived"), begin.elapsed().as_nanos());
    }
}

/// Returns the id of this thread.
fn this_thread() -> String {
    let link = std::fs::read_link("/proc/thread-self").expect("proc");
    let tid = link.file_name().expect("an id");
    tid.to_string_lossy().into_owned()
}

#[test]
fn program_of_sleepers() {
    program("waits::program_of_sleepers", || {
        let number = |name: &str| -> u64 {
            let value = std::env::var(name).expect("the test sets it");
            value.parse().expect("a number")
        };
        let (threads, waits, ms) = (number("THREADS"), number("WAITS"), number("MS"));
        known("waits", u128::from(threads * waits));
        run(threads as usize, move || {
            for _ in 0..waits {
                thread::sleep(Duration::from_millis(ms));
            }
            Duration::from_millis(waits * ms)
        });
    });
}

#[test]
fn program_of_a_lock() {
    program("waits::program_of_a_lock", || {
        const SLEEP: Duration = Duration::from_millis(2);
        // The number of sleeps with the lock.
        let lock = Arc::new(Mutex::new(0_u32));
        known("waits", 4 * 20);
        run(4, move || {
            let (mut first, mut last) = (None, 0);
            for _ in 0..20 {
                let mut sleeps = lock.lock().expect("no panic");
                first.get_or_insert(*sleeps);
                thread::sleep(SLEEP);
                *sleeps += 1;
                last = *sleeps;
            }
            // While another thread slept with the lock, this one waited for it.
            SLEEP * (last - first.expect("a sleep"))
        });
    });
}

/// Compares the callstacks of the recorded command with what its threads know.
fn compare(world: &World, known: &Known, all: &mut crate::compare::Comparison, name: &str) {
    let readers = Readers::of(world, "t");
    let summary = readers.summary["profiles"]
        .as_array()
        .and_then(|profiles| profiles.iter().find(|profile| profile["off_cpu"] == true))
        .expect("a profile of waits");
    let threads = summary["threads"].as_array().expect("threads");
    let mut waited = 0;
    let mut worst = (i64::MIN, 0, 0, 0);
    for (tid, had_to_wait) in known.named(" waited") {
        let lived = known.get(&format!("{tid} lived"));
        let thread = threads
            .iter()
            .find(|thread| whole(&thread["id"]).to_string() == tid);
        let sampled = thread.map_or(0, |thread| whole(&thread["count"]["weight"]));
        // The clock of the thread runs on while it is about to leave the CPU.
        let (least, most) = (had_to_wait * 98 / 100, lived * 102 / 100);
        worst = worst.max(((least - sampled).max(sampled - most), least, most, sampled));
        waited += had_to_wait;
    }
    let (_, least, most, sampled) = worst;
    let name_of = |what: &str| format!("{name}: {what}");
    all.number(
        &name_of("of the worst thread"),
        least..=most,
        &[("summary", Some(sampled))],
    );
    let total = whole(&summary["total"]["weight"]);
    // The main thread waits for the others, too.
    all.number(
        &name_of("of all"),
        waited * 98 / 100..,
        &[("summary", Some(total))],
    );
    // At this rate each wait has a callstack.
    let sampled = whole(&summary["total"]["samples"]);
    all.number(
        &name_of("callstacks"),
        known.get("waits")..,
        &[("summary", Some(sampled))],
    );
    if name == "lock" {
        let folded = world
            .run("ferretto", &["folded", "--off-cpu", "t"])
            .returned(0);
        let folded: i64 = folded
            .text()
            .lines()
            .filter_map(|line| line.rsplit_once(' ')?.1.parse::<i64>().ok())
            .sum();
        let sum: i64 = threads
            .iter()
            .map(|thread| whole(&thread["count"]["weight"]))
            .sum();
        all.number(
            &name_of("of all"),
            exactly(total),
            &[
                ("folded", Some(folded)),
                ("threads", Some(sum)),
                ("viewer", readers.waits()),
                ("tables", Some(readers.waits_of_tables())),
            ],
        );
        let svg = ["flamegraph", "--off-cpu", "t", "-o", "-"];
        let svg = world.run("ferretto", &svg).returned(0);
        let shown = svg.text().lines().find(|line| line.contains("callstacks)"));
        let shown = shown.and_then(|line| line.split_once('(')?.1.split_once(" in "));
        let milliseconds = shown.and_then(|(time, _)| match time.split_once(' ')? {
            (time, "ms") => time.parse::<f64>().ok(),
            (time, "s") => Some(time.parse::<f64>().ok()? * 1e3),
            _ => None,
        });
        // It is rounded.
        let milliseconds = milliseconds.expect("a time") as i64;
        all.number(
            &name_of("of all in ms"),
            about(total / 1_000_000, 1),
            &[("flamegraph", Some(milliseconds))],
        );
    }
}

#[test]
fn callstacks_add_up_to_the_times_of_waits() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: off-CPU times of context switches need root");
        return;
    }
    let mut all = WAITS.compare();
    for (threads, waits, ms) in SLEEPERS {
        let mut world = World::new();
        for (name, value) in [
            ("THREADS", threads as u64),
            ("WAITS", waits as u64),
            ("MS", ms),
        ] {
            world.set(name, &value.to_string());
        }
        let known = record(&world, &["--off-cpu"], "waits::program_of_sleepers");
        compare(&world, &known, &mut all, &format!("{threads} sleepers"));
    }
    let world = World::new();
    let known = record(&world, &["--off-cpu"], "waits::program_of_a_lock");
    compare(&world, &known, &mut all, "lock");
    all.finish();
}
