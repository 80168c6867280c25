//! Parts of recordings of this machine: each says of its time what the whole says of it.
//!
//! `PARTS_OF=/path/to/trace cargo test -p ferretto-cli --test cli parts_of_recordings` looks at the
//! middle second of a recording that took longer.

use std::fs::{self, File};
use std::hint::black_box;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use ferretto::{counter, instant, slice};
use ferretto_edit::{Window, extent};
use ferretto_tables::{Options, Trace};
use ferretto_trace::events::read_events;

use crate::content::{check_upstream, differences, errors, said};
use crate::world::World;

const SECOND: u64 = 1_000_000_000;

/// The program that is recorded: slices inside each other on two threads, of which some are longer
/// than a part, instants and a counter.
#[test]
#[ignore = "another test records it"]
fn a_program_to_record() {
    ferretto::Options::new()
        .wait(Duration::from_secs(60))
        .init()
        .unwrap();
    let seconds = std::env::var("RECORDED_SECONDS").unwrap().parse().unwrap();
    let (began, length) = (Instant::now(), Duration::from_secs(seconds));
    let _all = slice!("app", "all of it");
    thread::scope(|scope| {
        scope.spawn(|| {
            for job in 0_u64.. {
                let _job = slice!("app", "job", number = job);
                {
                    let _inner = slice!("app", "inner");
                    thread::sleep(Duration::from_millis(7));
                }
                // So that there are callstacks.
                let sum: u64 = (0..black_box(2_000_000)).map(black_box).sum();
                black_box(sum);
                if began.elapsed() > length {
                    break;
                }
            }
        });
        for round in 0_i64.. {
            let _round = slice!("app", "round");
            counter!("app", "level", round % 10);
            instant!("app", "tick");
            thread::sleep(Duration::from_millis(300));
            if began.elapsed() > length {
                break;
            }
        }
    });
}

/// Records that program for some seconds, with scheduling, callstacks, processes and counters.
/// Returns false if kernel events cannot be recorded here.
fn record(world: &World, seconds: &str, options: &[&str]) -> bool {
    if ferretto_probes::ftrace::kernel_events().is_empty() {
        println!("skipped: kernel events are not allowed here");
        return false;
    }
    let program = std::env::current_exe().unwrap();
    let mut args = vec!["record", "-q", "-o", "t", "--sched", "--perf"];
    args.extend(options);
    args.extend(["--", program.to_str().unwrap(), "--exact", "--ignored"]);
    args.push("parts_of_recordings::a_program_to_record");
    let mut command = world.command("ferretto", &args);
    command.env("RECORDED_SECONDS", seconds);
    let said = command.output().unwrap();
    assert_eq!(said.status.code(), Some(0), "{said:?}");
    true
}

/// Returns a second in the middle of what is known of the program and of the kernel, or `None` if
/// the program is not in the trace. A ring holds less of what writes more.
fn middle(path: &Path) -> Option<Window> {
    let events = read_events(File::open(path).unwrap()).unwrap();
    let ticks = events.events.iter();
    let ticks = ticks.filter(|event| event.name.as_deref() == Some("tick"));
    let times: Vec<u64> = ticks.filter_map(|event| event.time).collect();
    let (first, last) = (*times.first()?, *times.last()?);
    let trace = Trace::read(File::open(path).unwrap(), &Options::default()).unwrap();
    let sched = &trace.tables().sched_slice;
    let first_on_cpu = (0..sched.len()).map(|row| sched.ts().get(row)).min()?;
    let from = first.max(first_on_cpu.cast_unsigned()).midpoint(last) - SECOND / 2;
    Some(Window {
        from,
        to: from + SECOND,
    })
}

/// Returns true for what a part does not say: what has ended before, and what needs an earlier
/// measurement.
fn is_of_before(line: &str) -> bool {
    let is_over = line.contains(" X 0 to ") || line.contains(" Z 0 to ");
    let before = ["counter diskstat.", "counter cpu-clock "];
    let is_rate = before.iter().any(|name| line.starts_with(name));
    (line.starts_with("state") && is_over) || (is_rate && line.ends_with(" before"))
}

/// Cuts a window out, and compares what both traces say of it.
#[track_caller]
fn compare(world: &World, path: &Path, window: Window) {
    let (from, to) = (window.from.to_string(), window.to.to_string());
    let trace = path.to_str().unwrap();
    let cut = ["cut", trace, "--from", &from, "--to", &to, "-o", "cut"];
    world.run("ferretto", &cut).returned(0);
    let (whole, part) = (fs::read(path).unwrap(), world.read("cut"));
    assert!(part.len() < whole.len());
    for trace in [&whole, &part] {
        assert_eq!(errors(trace), [] as [&str; 0]);
        check_upstream(trace);
    }
    let mut of_whole = said(&whole, window);
    let mut of_part = said(&part, window);
    of_part.retain(|line| !is_of_before(line));
    of_whole.retain(|line| !is_of_before(line));
    for kind in ["slice", "cpu", "state", "counter"] {
        assert!(of_part.iter().any(|line| line.starts_with(kind)), "{kind}");
    }
    assert_eq!(differences(&of_whole, &of_part), "");
    let summary = world.summary("cut");
    assert_eq!(summary.duration_ns, Some(window.to - window.from));
    let unknown = summary.unknown.join(" ");
    assert!(!unknown.contains("gone"), "{unknown}");
}

#[test]
fn the_middle_second_of_a_ring_says_what_the_whole_says_of_it() {
    let world = World::new();
    if !record(&world, "4", &["--ring", "64MB"]) {
        return;
    }
    let path = world.path("t");
    compare(&world, &path, middle(&path).expect("the program is in it"));
}

#[test]
fn segments_open_alone_and_the_middle_second_of_one_says_what_the_segment_says_of_it() {
    let world = World::new();
    if !record(&world, "6", &["--segment", "3s"]) {
        return;
    }
    let names = world.names();
    let segments = names.iter().filter(|name| name.starts_with("t-"));
    let segments: Vec<_> = segments.map(|name| world.path(name)).collect();
    let mut compared = 0;
    for path in &segments {
        let bytes = fs::read(path).unwrap();
        assert_eq!(errors(&bytes), [] as [&str; 0]);
        check_upstream(&bytes);
        let told = world.summary_at(path).duration_ns.unwrap();
        assert!(told < 5 * SECOND, "{told}");
        let whole = extent(&bytes[..]).unwrap();
        let window = middle(path);
        if let Some(window) = window.filter(|it| it.from >= whole.from && it.to <= whole.to) {
            compare(&world, path, window);
            compared += 1;
        }
    }
    assert!(segments.len() > 1 && compared > 0, "{segments:?}");
}

#[test]
fn the_middle_second_of_a_given_recording_says_what_the_whole_says_of_it() {
    let Some(path) = std::env::var_os("PARTS_OF") else {
        println!("skipped: PARTS_OF names no recording");
        return;
    };
    let path = Path::new(&path);
    compare(&World::new(), path, middle(path).expect("it has ticks"));
}
