//! Damaged, truncated, compressed and hostile traces, and recordings that did not end in order.

use std::io::Write;

use ferretto_wire::{Fields, encode};
use rustix::process::Signal;

use crate::daemons::{traced, traced_probes};
use crate::symbolize::sample;
use crate::world::{World, until};

/// Counters, read and written into the file ten times a second.
const COUNTERS: &str = "
    buffers { size_kb: 1024 }
    data_sources { config { name: \"linux.sys_stats\"
      sys_stats_config { meminfo_period_ms: 100 meminfo_counters: MEMINFO_MEM_FREE } } }
    write_into_file: true
    file_write_period_ms: 100
";

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Returns a trace with a sample and a truncated packet after it, and the packet's offset.
fn cut_sample() -> (Vec<u8>, usize) {
    let whole = sample("/no/such/program", &[1; 20], 0x1234);
    let length = whole.len();
    ([&whole[..], &[0x0a, 0x7f, 1, 2]].concat(), length)
}

#[test]
fn readers_of_callstacks_use_the_readable_part_and_report_its_end() {
    let world = World::new();
    let (cut, length) = cut_sample();
    let mut damaged = cut.clone();
    damaged[length] = 0x0b;
    for (name, file) in [("cut", &cut), ("damaged", &damaged)] {
        world.write(name, file);
        let at = format!("byte {length}");
        let read = |args: &[&str]| {
            let output = world.run("ferretto", &[args, &[name]].concat()).returned(3);
            output.complained(name).complained(&at)
        };
        let lines = read(&["folded"]);
        assert!(
            lines.text().ends_with("program+0x1234 1\n"),
            "{}",
            lines.text()
        );
        read(&["flamegraph", "-o", "out.svg"]);
        read(&["pprof", "-o", "out.pb.gz"]);
        read(&["symbolize", "-o", "named"]);
        read(&["text"]);
        read(&["view", "-o", "out.html"]);
        let summary = read(&["summary"]);
        assert!(!summary.text().contains("no data lost"));
        assert!(world.path("out.svg").exists() && world.path("out.pb.gz").exists());
        assert_eq!(world.read("named"), cut[..length]);
    }
    // For a complete trace, there is no message.
    world.write("whole", &cut[..length]);
    let output = world.run("ferretto", &["folded", "whole"]).returned(0);
    assert_eq!(output.stderr, "");
}

#[test]
fn all_commands_refuse_input_without_a_byte() {
    let world = World::new();
    world.write("empty", b"");
    world.write("rules", b"[[rule]]\nmeasure = \"loss\"\nmax = 0\n");
    for name in ["empty", "/dev/null"] {
        for command in [
            &["summary"][..],
            &["text"],
            &["folded"],
            &["flamegraph", "--json"],
            &["why"],
            &["diff", "--json", name],
            &["assert", "rules"],
            &["json", "-o", "out.json"],
            &["view", "-o", "out.html"],
            &["cut", "--to", "1s", "-o", "part"],
            &["split", "--every", "1s"],
            &["merge", name, "-o", "both"],
        ] {
            let output = world.run("ferretto", &[command, &[name]].concat());
            assert!([1, 2].contains(&output.code), "{command:?} {output:#?}");
            output.complained("empty");
        }
    }
}

#[test]
fn only_complete_traces_are_reported_to_have_no_callstacks() {
    let world = World::new();
    let whole = encode(|trace| trace.nested(1, |packet| packet.varint(8, 1)));
    world.write("whole", &whole);
    world.write("cut", [&whole[..], &[0x0a, 9]].concat());
    for command in ["folded", "flamegraph", "pprof"] {
        let output = world.run("ferretto", &[command, "whole"]).returned(1);
        output.complained("has no callstack samples");
        let output = world.run("ferretto", &[command, "cut"]).returned(1);
        let output = output.complained("no callstack samples in the readable part of cut");
        assert!(
            !output.stderr.contains("has no callstack"),
            "{}",
            output.stderr
        );
    }
}

#[test]
fn all_commands_read_compressed_files() {
    let world = World::new();
    let (cut, length) = cut_sample();
    let plain = &cut[..length];
    world.write("plain", plain);
    world.write("t.gz", gzip(plain));
    for command in ["text", "folded"] {
        let expected = world.run("ferretto", &[command, "plain"]).returned(0);
        let output = world.run("ferretto", &[command, "t.gz"]).returned(0);
        assert_eq!(output.stdout, expected.stdout);
    }
    let output = world.run("ferretto", &["summary", "t.gz"]).returned(0);
    assert!(output.text().contains("by gzip"), "{}", output.text());
    world
        .run("ferretto", &["symbolize", "t.gz"])
        .returned(1)
        .complained("compressed by gzip")
        .complained("--output");
    assert_eq!(world.read("t.gz"), gzip(plain));
    world
        .run("ferretto", &["symbolize", "t.gz", "-o", "named"])
        .returned(0);
    assert_eq!(world.read("named"), plain);
    let half = gzip(plain);
    world.write("half.gz", &half[..half.len() / 2]);
    world
        .run("ferretto", &["text", "half.gz"])
        .returned(3)
        .complained("the file ends inside a packet");
}

/// Returns a packet of 500 MiB that is compressed to half a million bytes, by blocks that repeat
/// one byte.
fn bomb() -> Vec<u8> {
    let block = |kind: u32, length: usize| (kind << 1 | (length as u32) << 3).to_le_bytes();
    let length = 500 << 20;
    let mut head = encode(|trace| trace.varint(1, length));
    head[0] = 0x0a;
    // A string in an unknown field.
    let mut name = encode(|packet| packet.varint(900, length - 7));
    name[0] |= 2;
    head.extend(name);
    let mut frame = b"\x28\xb5\x2f\xfd\x00\x68".to_vec();
    frame.extend(&block(0, head.len())[..3]);
    frame.extend(head);
    for _ in 0..4000 {
        frame.extend(&block(1, 1 << 17)[..3]);
        frame.push(b'a');
    }
    frame.extend(&[1, 0, 0]);
    encode(|trace| {
        trace.nested(1, |packet| packet.bytes(133, &frame));
        trace.nested(1, |packet| packet.varint(8, 4711));
    })
}

#[test]
fn packets_that_exceed_the_memory_limit_are_left_out_and_the_others_are_read() {
    let world = World::new();
    world.write("bomb", bomb());
    for command in ["text", "summary"] {
        // The limit is that of the address space, which is larger than the used memory.
        let script = "ulimit -v 400000; exec \"$0\" \"$1\" bomb --max-unpacked 1G";
        let mut limited = std::process::Command::new("sh");
        limited.args(["-c", script, crate::world::FERRETTO, command]);
        let output = crate::world::Running::new(world.at_home(limited).spawn().unwrap()).finish();
        let output = output.returned(3);
        let expected = match command {
            "text" => "timestamp: 4711",
            _ => "there may be one",
        };
        assert!(output.text().contains(expected), "{}", output.text());
        output
            .complained("too large for the memory limit")
            .complained("byte 0")
            .complained("--max-memory");
    }
    for (size, expected) in [
        ("3", "missing unit; use 3K, 3M or 3G"),
        ("3X", "such as 512M"),
        ("1M", "at least 16M"),
    ] {
        let args = ["summary", "--max-memory", size, "bomb"];
        world
            .run("ferretto", &args)
            .returned(2)
            .complained(expected);
    }
}

fn summary(world: &World, name: &str) -> String {
    let output = world.run("ferretto", &["summary", name]);
    assert!(output.code == 0 || output.code == 3, "{output:?}");
    output.text().to_owned()
}

#[test]
fn a_recording_of_a_killed_service_does_not_claim_to_be_complete() {
    let world = World::new();
    world.write("config", COUNTERS);
    let service = traced(&world);
    let _probes = traced_probes(&world);
    let recording = world.start_recording(&["-o", "out"]);
    // Statistics before the end are not the final ones.
    until("statistics are in the file", || {
        (world.path("out").exists() && !world.summary("out").sources.is_empty()).then_some(())
    });
    service.signal(Signal::KILL);
    recording.finish();
    let text = summary(&world, "out");
    assert!(!text.contains("no data lost"), "{text}");
    assert!(
        text.contains("the end of the recording is not in the file"),
        "{text}"
    );
}

#[test]
fn a_truncated_recording_does_not_claim_to_be_complete() {
    let world = World::new();
    world.write("config", format!("{COUNTERS} duration_ms: 400"));
    let _service = traced(&world);
    let _probes = traced_probes(&world);
    world.start_recording(&["-o", "out"]).finish().returned(0);
    let text = summary(&world, "out");
    assert!(text.contains("no data lost"), "{text}");
    let whole = world.read("out");
    let mut boundaries = vec![0];
    let mut fields = Fields::new(&whole);
    while fields.next().is_some() {
        boundaries.push(fields.offset());
    }
    assert_eq!(boundaries.pop(), Some(whole.len()));
    let last = *boundaries.last().unwrap();
    // In the middle, inside the last packet, and between two packets.
    for cut in [whole.len() / 2, last + 1, whole.len() - 1]
        .into_iter()
        .chain(boundaries)
    {
        let summary = ferretto_trace::summarize(&whole[..cut]).unwrap();
        assert!(
            !summary.is_complete(),
            "cut at {cut} of {}: {summary:?}",
            whole.len()
        );
    }
    world.write("cut", &whole[..last]);
    let text = summary(&world, "cut");
    assert!(!text.contains("no data lost"), "{text}");
    assert!(text.contains("losses are unknown"), "{text}");
}

#[test]
fn a_recording_whose_data_source_was_killed_does_not_claim_to_be_complete() {
    let world = World::new();
    world.write("config", COUNTERS);
    let _service = traced(&world);
    let probes = traced_probes(&world);
    let recording = world.start_recording(&["-o", "out"]);
    until("something is recorded", || {
        (world.path("out").exists() && !world.summary("out").counters.is_empty()).then_some(())
    });
    probes.signal(Signal::KILL);
    probes.finish().returned(128 + 9);
    recording.signal(Signal::INT);
    recording.finish().returned(0);
    let text = summary(&world, "out");
    assert!(!text.contains("no data lost"), "{text}");
    let gone = "linux.sys_stats of perfetto.traced_probes left before the recording ended";
    assert!(text.contains(gone), "{text}");
}

// Events without a sequence are in the file, and no reader can show them.
#[test]
fn every_reader_reports_data_that_it_cannot_show() {
    let world = World::new();
    let event = |kind| {
        encode(|trace| {
            trace.nested(1, |packet| {
                packet.varint(8, 1000);
                packet.nested(11, |event| event.varint(9, kind));
            });
        })
    };
    world.write("x.pftrace", [event(1), event(2)].concat());
    let what = "2 left out: track events without a sequence";
    let readers: [&[&str]; 5] = [
        &["summary"],
        &["summary", "--json"],
        &["text", "--resolve"],
        &["json"],
        &["view", "-o", "x.html"],
    ];
    for reader in readers {
        let output = world.run("ferretto", &[reader, &["x.pftrace"]].concat());
        let output = output.returned(3).complained(what);
        let text = output.text();
        assert!(!text.contains("no data lost"), "{text}");
        assert!(!text.contains("no loss is recorded"), "{text}");
        if reader[0] == "summary" {
            assert!(text.contains("track_event_missing_sequence_id"), "{text}");
        }
    }
    // The result has the name of the trace.
    assert!(world.path("x.json").exists());
}
