//! Parts of recordings of this machine: each has the events that the whole recording has in its
//! time.
//!
//! `PARTS_OF=/path/to/trace cargo test -p ferretto-cli --test cli parts_of_recordings` compares the
//! middle second of an existing recording.

use std::fs::{self, File};
use std::hint::black_box;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use ferretto::{counter, instant, slice};
use ferretto_edit::{Window, extent};
use ferretto_tables::{Lost, Options, Trace};
use ferretto_testing::content::{check_upstream, content_of, differences, errors};
use ferretto_trace::Limits;
use ferretto_trace::events::read_events;

use crate::world::World;

const SECOND: u64 = 1_000_000_000;

/// The recorded program: nested slices on two threads, some of them longer than a part, instants
/// and a counter.
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
                // CPU time, for callstacks.
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

/// Records the program for some seconds, with scheduling, callstacks, processes and counters.
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
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    true
}

/// Returns the times of the program's events in a trace.
fn ticks(path: &Path) -> Vec<u64> {
    let events = read_events(File::open(path).unwrap()).unwrap();
    let ticks = events.events.iter();
    let ticks = ticks.filter(|event| event.name.as_deref() == Some("tick"));
    ticks.filter_map(|event| event.time).collect()
}

/// Returns a second in the middle of the time for which a trace has events of both the program and
/// the kernel, or `None` if the program is not in the trace. In a ring, sources that write more
/// have a shorter time. Where the kernel left out switches, only what comes after a border tells
/// what is known at it, so the borders are at other times.
fn middle(path: &Path) -> Option<Window> {
    let times = ticks(path);
    let (first, last) = (*times.first()?, *times.last()?);
    let trace = Trace::read(File::open(path).unwrap(), &Options::default()).unwrap();
    let sched = &trace.tables().sched_slice;
    let first_on_cpu = (0..sched.len()).map(|row| sched.ts().get(row)).min()?;
    let from = first.max(first_on_cpu.cast_unsigned()).midpoint(last) - SECOND / 2;
    let is_known = |at: u64| {
        let at = at.cast_signed();
        !trace.losses().iter().any(|loss| match loss.lost {
            Lost::Switches { from, .. } => (from..=loss.ts).contains(&at),
            _ => false,
        })
    };
    let mut windows = (0..SECOND / 4).step_by(1_000_000).map(|later| Window {
        from: from + later,
        to: from + later + SECOND,
    });
    windows.find(|window| is_known(window.from) && is_known(window.to))
}

/// Returns true for events that a part lacks: those that ended before it, and those that depend on
/// an earlier measurement.
fn is_of_before(line: &str) -> bool {
    let is_over = line.contains(" X 0 to ") || line.contains(" Z 0 to ");
    let before = ["counter diskstat.", "counter cpu-clock "];
    let is_rate = before.iter().any(|name| line.starts_with(name));
    (line.starts_with("state") && is_over) || (is_rate && line.ends_with(" before"))
}

/// Returns the errors that the import counted, without the switches that the kernel left out:
/// some kernels do so in virtual machines.
fn own_errors(bytes: &[u8]) -> Vec<String> {
    let mut errors = errors(bytes);
    errors.retain(|name| name != "mismatched_sched_switch_tids");
    errors
}

/// Cuts a window out, and compares its events in both traces.
#[track_caller]
fn compare(world: &World, path: &Path, window: Window) {
    let (from, to) = (window.from.to_string(), window.to.to_string());
    let trace = path.to_str().unwrap();
    let cut = ["cut", trace, "--from", &from, "--to", &to, "-o", "cut"];
    world.run("ferretto", &cut).returned(0);
    let (whole, part) = (fs::read(path).unwrap(), world.read("cut"));
    assert!(part.len() < whole.len());
    for trace in [&whole, &part] {
        assert_eq!(own_errors(trace), [] as [&str; 0]);
        check_upstream(trace);
    }
    let mut of_whole = content_of(&whole, window);
    let mut of_part = content_of(&part, window);
    of_part.retain(|line| !is_of_before(line));
    of_whole.retain(|line| !is_of_before(line));
    for kind in ["slice", "cpu", "state", "counter"] {
        assert!(of_part.iter().any(|line| line.starts_with(kind)), "{kind}");
    }
    assert_eq!(differences(&of_whole, &of_part), "");
    let summary = world.summary("cut");
    let bounds = extent(&part[..], Limits::default()).unwrap();
    assert_eq!(summary.duration_ns, Some(bounds.to - 1 - bounds.from));
    assert!(bounds.from >= window.from - 1, "{bounds:?}");
    let unknown = summary.unknown.join(" ");
    assert!(!unknown.contains("gone"), "{unknown}");
}

#[test]
fn the_middle_second_of_a_ring_has_the_events_of_the_whole() {
    let world = World::new();
    if !record(&world, "4", &["--ring", "64MB"]) {
        return;
    }
    let path = world.path("t");
    compare(&world, &path, middle(&path).expect("the program is in it"));
}

#[test]
fn segments_are_complete_traces_and_the_middle_second_of_one_has_its_events() {
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
        assert_eq!(own_errors(&bytes), [] as [&str; 0]);
        check_upstream(&bytes);
        let duration = world.summary_at(path).duration_ns.unwrap();
        let times = ticks(path);
        if let (Some(first), Some(last)) = (times.first(), times.last()) {
            assert!(last - first < 5 * SECOND, "{first} to {last}");
        }
        // State from before a segment keeps its time, unless that is more than five seconds ago.
        assert!(duration < (3 + 5) * SECOND, "{duration}");
        let whole = extent(&bytes[..], Limits::default()).unwrap();
        let window = middle(path);
        if let Some(window) = window.filter(|it| it.from >= whole.from && it.to <= whole.to) {
            compare(&world, path, window);
            compared += 1;
        }
    }
    assert!(segments.len() > 1 && compared > 0, "{segments:?}");
}

#[test]
fn the_middle_second_of_a_given_recording_has_the_events_of_the_whole() {
    let Some(path) = std::env::var_os("PARTS_OF") else {
        println!("skipped: PARTS_OF is not set to a recording");
        return;
    };
    let path = Path::new(&path);
    compare(&World::new(), path, middle(path).expect("it has ticks"));
}
