//! Conversion of files of other programs: `ferretto import`, and `ferretto json`.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::process::Stdio;

use ferretto_text::config::{Unknown, read_message};
use ferretto_wire::{Fields, encode};
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

/// Returns the ends of flows: the phase, the thread and the time, in the order of flows.
fn flows(json: &Value) -> Vec<Vec<(u64, f64)>> {
    let events = json["traceEvents"].as_array().unwrap();
    let mut flows: Vec<Vec<(u64, f64)>> = Vec::new();
    for event in events {
        let end = || {
            (
                event["tid"].as_u64().unwrap(),
                event["ts"].as_f64().unwrap(),
            )
        };
        match event["ph"].as_str().unwrap() {
            "s" => flows.push(vec![end()]),
            "f" => flows.last_mut().unwrap().push(end()),
            _ => {}
        }
    }
    flows.sort_by(|a, b| a.partial_cmp(b).unwrap());
    flows
}

#[test]
fn flows_continue_from_part_to_part() {
    const SLICES: u64 = 2_000;
    let world = World::new();
    let mut text = String::new();
    for tid in [1, 2] {
        writeln!(
            text,
            "packet {{ trusted_packet_sequence_id: {tid} sequence_flags: 1 timestamp: 1
              trace_packet_defaults {{ track_event_defaults {{ track_uuid: {tid} }} }}
              track_descriptor {{ uuid: {tid} thread {{ pid: 1 tid: {tid} }} }} }}"
        )
        .unwrap();
    }
    let mut event = |tid: u64, us: u64, fields: &str| {
        let ns = us * 1000;
        writeln!(
            text,
            "packet {{ trusted_packet_sequence_id: {tid} sequence_flags: 2 timestamp: {ns} track_event {{ {fields} }} }}"
        )
        .unwrap();
    };
    // A slice around all others, whose flows continue elsewhere before the first part ends.
    event(
        1,
        10,
        "type: TYPE_SLICE_BEGIN name: \"outer\" flow_ids: 2 flow_ids: 3 flow_ids: 4",
    );
    for number in 0..SLICES {
        let flows = match number {
            0 => "flow_ids: 1",
            5 => "terminating_flow_ids: 2",
            20 => "flow_ids: 3",
            1000 => "flow_ids: 1",
            1970 => "terminating_flow_ids: 4",
            1980 => "terminating_flow_ids: 3",
            1985 => "flow_ids: 2",
            1990 => "flow_ids: 2",
            1995 => "terminating_flow_ids: 1",
            _ => "",
        };
        let ts = 100 + number * 10;
        let begin = format!("type: TYPE_SLICE_BEGIN name: \"request\" {flows}");
        event(2, ts, &begin);
        let phase = match number {
            1 => u32::from(b's'),
            1001 => u32::from(b't'),
            1991 => u32::from(b'f'),
            _ => 0,
        };
        if phase != 0 {
            let old = format!(
                "categories: \"old\" name: \"old\" legacy_event {{ phase: {phase} unscoped_id: 1 bind_to_enclosing: true }}"
            );
            event(2, ts + 1, &old);
        }
        event(2, ts + 5, "type: TYPE_SLICE_END");
    }
    event(1, 30_000, "type: TYPE_SLICE_END flow_ids: 5");
    event(
        2,
        30_001,
        "type: TYPE_INSTANT name: \"last\" terminating_flow_ids: 5",
    );
    let trace = read_message(
        "perfetto.protos.Trace",
        "trace",
        text.as_bytes(),
        Unknown::Refuse,
    );
    let Some(Ok(trace)) = trace else {
        panic!("{:?}", trace.map(|it| it.err()));
    };
    world.write("t", trace.bytes);

    let (whole, _) = json(&world, &["t"]);
    let slice = |number: u64| (2, (100 + number * 10) as f64);
    let outer = (1, 10.0);
    let mut expected = vec![
        vec![slice(0), slice(1000)],
        vec![slice(1000), slice(1995)],
        vec![outer, slice(5)],
        vec![slice(1985), slice(1990)],
        vec![outer, slice(20)],
        vec![slice(20), slice(1980)],
        vec![outer, slice(1970)],
        vec![slice(1), slice(1001)],
        vec![slice(1001), slice(1991)],
        vec![outer, (2, 30_001.0)],
    ];
    expected.sort_by(|a, b| a.partial_cmp(b).unwrap());
    assert_eq!(flows(&whole), expected);
    world.run("ferretto", &["split", "t", "--size", "16K", "-o", "part"]);
    assert!(world.names().len() > 5, "{:?}", world.names());
    let (parts, _) = json(&world, &["t", "--part", "16K"]);
    assert_eq!(flows(&parts), expected);
}

#[test]
fn source_lines_of_a_pprof_profile_are_those_of_the_original() {
    let world = World::new();
    let profile = encode(|out| {
        out.nested(1, |kind| {
            kind.varint(1, 1);
            kind.varint(2, 2);
        });
        out.nested(2, |sample| {
            sample.varint(1, 1);
            sample.varint(1, 2);
            sample.varint(2, 7);
        });
        for (id, line) in [(1, 17), (2, 5)] {
            out.nested(4, |location| {
                location.varint(1, id);
                location.varint(3, 0x1000 + id);
                location.nested(4, |out| {
                    out.varint(1, id);
                    out.varint(2, line);
                });
            });
            out.nested(5, |function| {
                function.varint(1, id);
                function.varint(2, 2 + id);
                function.varint(4, 4 + id);
            });
        }
        for text in ["", "samples", "count", "work", "main", "work.rs", "main.rs"] {
            out.string(6, text);
        }
    });
    world.write("in.pb", profile);
    world.run("ferretto", &["import", "in.pb"]).returned(0);
    let args = ["pprof", "in.pftrace", "-o", "out.pb.gz"];
    world.run("ferretto", &args).returned(0);
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(&world.read("out.pb.gz")[..])
        .read_to_end(&mut bytes)
        .unwrap();
    let all = |number| {
        let fields = Fields::new(&bytes).map(Result::unwrap);
        let fields = fields.filter(move |field| field.number == number);
        fields.map(|field| field.as_bytes().unwrap())
    };
    let number = |number, bytes| Fields::find(number, bytes).and_then(|it| it.as_u64());
    let texts: Vec<_> = all(6).map(String::from_utf8_lossy).collect();
    let functions: HashMap<_, _> = all(5)
        .map(|function| {
            let text = |field| &texts[number(field, function).unwrap() as usize];
            (number(1, function), (text(2), text(4)))
        })
        .collect();
    let mut lines: Vec<_> = all(4)
        .map(|location| {
            let line = Fields::find(4, location).unwrap().as_bytes().unwrap();
            let (name, file) = functions[&number(1, line)];
            format!("{name} {file}:{}", number(2, line).unwrap())
        })
        .collect();
    lines.sort();
    assert_eq!(lines, ["main main.rs:5", "work work.rs:17"]);
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
        .returned(3)
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
    // A single file does not replace a recording with the default name either.
    world.write("trace.pftrace", "recording");
    world
        .run("ferretto", &["import", "b.json"])
        .returned(0)
        .complained("1 event is in b.pftrace");
    assert_eq!(world.read("trace.pftrace"), b"recording");
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

/// Three samples of different events, with their periods.
const THREE_EVENTS: &str = "\
app  100/100  [001]  5.100000:          1 cycles:u: \n\t401136 hot (/tmp/app)\n\n\
app  100/100  [001]  5.200000:         99 instructions: \n\t401200 other (/tmp/app)\n\n\
app  100/100  [001]  5.300000:    1500000 task-clock: \n\t401300 busy (/tmp/app)\n\n";

#[test]
fn events_of_perf_are_counted_apart() {
    let world = World::new();
    world.write("p.txt", THREE_EVENTS);
    world.run("ferretto", &["import", "p.txt"]).returned(0);
    for file in ["p.txt", "p.pftrace"] {
        let folded = |args: &[&str]| {
            let outcome = world.run("ferretto", &[&["folded", file], args].concat());
            let outcome = outcome.returned(0);
            (outcome.text().to_owned(), outcome.stderr)
        };
        let (lines, notes) = folded(&[]);
        assert_eq!(lines, "app;hot 1\n");
        assert!(
            notes.contains(
                "samples of cycles:u; choose others with --event: instructions, task-clock"
            ),
            "{notes}"
        );
        for (event, expected) in [
            ("cycles:u", "app;hot 1\n"),
            ("cycles", "app;hot 1\n"),
            ("instructions", "app;other 99\n"),
            ("task-clock", "app;busy 1500000\n"),
        ] {
            assert_eq!(
                folded(&["--event", event]),
                (expected.to_owned(), String::new())
            );
            assert_eq!(folded(&["--sample-type", event]).0, expected);
        }
        world
            .run("ferretto", &["folded", file, "--event", "nosuch"])
            .returned(1)
            .complained("it has those of cycles:u, instructions, task-clock");
        let summary = world.run("ferretto", &["summary", file]).returned(0);
        let summary = summary.text();
        for part in [
            "1 cycles in 1 sample",
            "99 instructions in 1 sample",
            "1.5 ms in 1 sample",
        ] {
            assert!(summary.contains(part), "{summary}");
        }
    }
    for (event, unit) in [("cycles", "cycles"), ("task-clock", "nanoseconds")] {
        let args = ["pprof", "p.txt", "--event", event, "-o", "p.pb.gz"];
        world.run("ferretto", &args).returned(0);
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(&world.read("p.pb.gz")[..])
            .read_to_end(&mut bytes)
            .unwrap();
        let parts = |number| {
            let all = Fields::new(&bytes).map_while(Result::ok);
            let all = all.filter(move |field| field.number == number);
            all.filter_map(|field| field.as_bytes()).collect::<Vec<_>>()
        };
        let strings = parts(6);
        let units = parts(1).into_iter().map(|kind| {
            let index = Fields::find(2, kind).unwrap().as_u64().unwrap();
            String::from_utf8_lossy(strings[index as usize]).into_owned()
        });
        assert_eq!(units.collect::<Vec<_>>(), ["count", unit]);
    }
    let args = [
        "flamegraph",
        "p.txt",
        "--event",
        "instructions",
        "-o",
        "p.svg",
    ];
    world.run("ferretto", &args).returned(0);
    let svg = String::from_utf8(world.read("p.svg")).unwrap();
    assert!(svg.contains("99 instructions in 1 sample of instructions"));
}
