//! Conversion of files of other programs: `ferretto import`, and `ferretto json`.

use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::process::Stdio;

use serde_json::Value;

use crate::world::World;

/// Writes a trace with this number of slices on some threads, with counters, and one slice around
/// all others.
fn trace(world: &World, name: &str, slices: u64) {
    let mut json = r#"[{"ph":"B","name":"whole","pid":1,"tid":1,"ts":0},"#.to_owned();
    for number in 0..slices {
        let (ts, tid) = (10 + number * 10, 1 + number % 4);
        write!(
            json,
            r#"{{"ph":"X","name":"s{}","pid":1,"tid":{tid},"ts":{ts},"dur":5,"args":{{"n":{number}}}}},"#,
            number % 50
        )
        .unwrap();
        if number % 10 == 0 {
            write!(
                json,
                r#"{{"ph":"C","name":"c","pid":1,"ts":{ts},"args":{{"v":7}}}},"#
            )
            .unwrap();
        }
    }
    write!(
        json,
        r#"{{"ph":"E","pid":1,"tid":1,"ts":{}}}]"#,
        slices * 10 + 20
    )
    .unwrap();
    fs::write(world.path("in.json"), json).unwrap();
    let import = ["import", "in.json", "-o", name];
    world.run("ferretto", &import).returned(0);
}

/// Runs `ferretto json`, and returns its output and its peak memory.
fn json(world: &World, args: &[&str]) -> (Value, u64) {
    let mut child = world.command("ferretto", &[&["json", "-o", "-"], args].concat());
    let mut child = child.stdout(Stdio::piped()).spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    let (mut text, mut piece, mut peak) = (Vec::new(), vec![0; 64 << 10], 0);
    loop {
        let count = output.read(&mut piece).unwrap();
        text.extend_from_slice(&piece[..count]);
        if count == 0 {
            break;
        }
        // Its memory cannot be read once it has ended.
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kb = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        peak = peak.max(kb.unwrap_or(0));
    }
    assert!(child.wait().unwrap().success());
    (serde_json::from_slice(&text).unwrap(), peak)
}

#[test]
fn json_is_written_in_parts_with_bounded_memory() {
    let world = World::new();
    let mut peaks = Vec::new();
    for slices in [5_000, 40_000] {
        trace(&world, "t", slices);
        let (json, peak) = json(&world, &["t", "--part", "128K"]);
        peaks.push(peak);
        let events = json["traceEvents"].as_array().unwrap();
        let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count() as u64;
        assert_eq!((of("X"), of("C"), of("B")), (slices + 1, slices / 10, 0));
        let whole: Vec<_> = events
            .iter()
            .filter(|event| event["name"] == "whole")
            .collect();
        assert_eq!(whole.len(), 1);
        assert_eq!(whole[0]["ts"], 0.0);
        assert_eq!(whole[0]["dur"], (slices * 10 + 20) as f64);
        assert_eq!(whole[0]["args"], Value::Null);
    }
    println!("KB of memory for 5,000 and 40,000 slices: {peaks:?}");
    assert!(peaks[1] < peaks[0] + peaks[0] / 2, "{peaks:?}");
}

#[test]
fn files_of_other_programs_become_traces() {
    let world = World::new();
    fs::write(
        world.path("a.folded"),
        "main;work 3\nmain;wait 4\nmain;read 5\nno count\n",
    )
    .unwrap();
    let json = r#"[{"ph":"X","name":"request","pid":1,"tid":1,"ts":5,"dur":20},{"ph":"Q","ts":1}]"#;
    fs::write(world.path("b.json"), json).unwrap();
    world
        .run("ferretto", &["import", "a.folded", "b.json"])
        .returned(0)
        .complained("3 samples are in a.pftrace")
        .complained("1 lines without a callstack and a count")
        .complained("1 events of phase Q");
    assert!(world.summary("a.pftrace").packets > 0);
    assert!(world.summary("b.pftrace").packets > 0);
    // Each line has its count, and there is no process.
    let folded = world.run("ferretto", &["folded", "a.pftrace"]).returned(0);
    assert_eq!(folded.text(), "main;read 5\nmain;wait 4\nmain;work 3\n");
    let summary = world.run("ferretto", &["summary", "a.pftrace"]).returned(0);
    assert!(summary.text().contains("12 samples"), "{}", summary.text());
    assert!(!summary.text().contains("pid 0"), "{}", summary.text());
    world
        .run("ferretto", &["import", "b.pftrace"])
        .returned(1)
        .complained("is a Perfetto trace already");
    world
        .run("ferretto", &["import", "b.json", "-o", "b.json"])
        .returned(1)
        .complained("the same file");
    world
        .run("ferretto", &["import", "a.folded", "b.json", "-o", "c"])
        .returned(1)
        .complained("several files become several traces");
    assert_eq!(fs::read_to_string(world.path("b.json")).unwrap(), json);
}
