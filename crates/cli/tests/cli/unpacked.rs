//! Files that take more time, disk or memory than their size suggests.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use ferretto_wire::encode;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};

use crate::world::{FERRETTO, Finished, Running, World};

const MIB: usize = 1 << 20;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Returns packets with the clocks of a machine and an event.
fn clocks() -> Vec<u8> {
    encode(|trace| {
        trace.nested(1, |packet| {
            packet.nested(6, |snapshot| {
                for (clock, time) in [(6, 1000), (1, 1_000_000)] {
                    snapshot.nested(1, |reading| {
                        reading.varint(1, clock);
                        reading.varint(2, time);
                    });
                }
            });
            packet.varint(10, 1);
        });
        trace.nested(1, |packet| {
            packet.varint(8, 2000);
            packet.varint(10, 2);
            packet.nested(11, |event| {
                event.varint(9, 3);
                event.bytes(23, b"first");
            });
        });
    })
}

/// Returns a mebibyte of packets with a time and nothing else.
fn small_packets() -> Vec<u8> {
    let packet = encode(|trace| trace.nested(1, |packet| packet.varint(8, 1)));
    packet.repeat(MIB / packet.len())
}

/// Returns a trace with a packet of compressed ones.
fn compressed_packets(bytes: &[u8]) -> Vec<u8> {
    let packed = zlib(bytes);
    encode(|trace| trace.nested(1, |packet| packet.bytes(50, &packed)))
}

/// Returns a Zstandard frame of `blocks` blocks of one repeated byte.
fn zstd(byte: u8, blocks: usize) -> Vec<u8> {
    let block = |kind: u32, length: usize| (kind << 1 | (length as u32) << 3).to_le_bytes();
    let mut frame = b"\x28\xb5\x2f\xfd\x00\x68".to_vec();
    for _ in 0..blocks {
        frame.extend(&block(1, 1 << 17)[..3]);
        frame.push(byte);
    }
    frame.extend(&[1, 0, 0]);
    frame
}

/// Runs a command that may write at most 16 MiB into any file. Prints its peak memory.
fn run(world: &World, args: &[&str]) -> Finished {
    let (finished, peak) = measured(world, args);
    let all = peak.all >> 10;
    assert!(all < 256, "{args:?} takes {all} MiB");
    finished
}

/// The highest memory of a process, in KiB.
#[derive(Default, Clone, Copy)]
struct Peak {
    all: u64,
    /// Without the pages of files, such as those of the program.
    own: u64,
}

/// Runs a command like [`run`], and returns its peak memory.
fn measured(world: &World, args: &[&str]) -> (Finished, Peak) {
    let mut limited = Command::new("bash");
    let script = "ulimit -f 16384; exec \"$0\" \"$@\"";
    limited.args(["-c", script, FERRETTO]).args(args);
    let running = Running::new(world.at_home(limited).spawn().unwrap());
    let status = format!("/proc/{}/status", running.pid());
    let peak = thread::spawn(move || {
        let mut peak = Peak::default();
        while let Some((all, of_files)) = memory(Path::new(&status)) {
            peak.all = all;
            peak.own = peak.own.max(all.saturating_sub(of_files));
            thread::sleep(Duration::from_millis(2));
        }
        peak
    });
    let finished = running.finish();
    let peak = peak.join().unwrap();
    println!("{args:?}: peak {} MiB", peak.all >> 10);
    (finished, peak)
}

/// Returns the highest resident memory of a process so far, and its present pages of files, in KiB.
fn memory(status: &Path) -> Option<(u64, u64)> {
    let status = fs::read_to_string(status).ok()?;
    let value = |name: &str| {
        let line = status.lines().find_map(|it| it.strip_prefix(name))?;
        line.trim().trim_end_matches(" kB").parse().ok()
    };
    Some((value("VmHWM:")?, value("RssFile:")?))
}

/// The commands that read traces, with the trace `t`.
const READERS: [&[&str]; 12] = [
    &["summary", "t"],
    &["text", "t"],
    &["text", "--resolve", "t"],
    &["folded", "t"],
    &["flamegraph", "t", "-o", "out"],
    &["pprof", "t", "-o", "out"],
    &["cut", "t", "--from", "0s", "-o", "out"],
    &["split", "t", "--size", "64M", "-o", "out"],
    &["merge", "t", "t", "-o", "out"],
    &["json", "t", "-o", "out"],
    &["view", "t", "-o", "out"],
    &["symbolize", "t", "-o", "out"],
];

#[test]
fn every_reader_of_traces_stops_at_the_limit_of_decompressed_data() {
    let world = World::new();
    let member = small_packets();
    let mut compressed = gzip(&clocks());
    compressed.extend(gzip(&member).repeat(256));
    let mut nested = clocks();
    nested.extend(compressed_packets(&member).repeat(256));
    let mut both = gzip(&clocks());
    both.extend(gzip(&compressed_packets(&member).repeat(64)));
    for (name, bytes) in [("gzip", &compressed), ("packets", &nested), ("both", &both)] {
        world.write("t", bytes);
        println!("{name}: {} bytes", bytes.len());
        for args in READERS {
            let args = [args, &["--max-unpacked", "2M"]].concat();
            let output = run(&world, &args);
            // Some commands find nothing to write.
            assert!([1, 3].contains(&output.code), "{args:?}: {output:?}");
            if output.code == 3 || !output.stderr.contains("no callstack samples") {
                output.complained("the limit of 2 MiB; --max-unpacked allows more");
            }
        }
    }
}

#[test]
fn half_a_gigabyte_in_one_packet_is_read_up_to_the_default_limit() {
    let world = World::new();
    // Records of twelve bytes, each of which is the tag of a packet.
    let packed = zstd(0x0a, 4096);
    let mut trace = clocks();
    trace.extend(encode(|trace| {
        trace.nested(1, |packet| packet.bytes(133, &packed));
    }));
    world.write("t", trace);
    let output = run(&world, &["summary", "t"]).returned(3);
    output
        .complained("its rest is skipped")
        .complained("64 MiB");
    let output = run(&world, &["summary", "t", "--max-unpacked", "16M"]);
    output.returned(3).complained("limit of 16 MiB");
}

#[test]
fn the_format_of_a_compressed_file_is_known_before_it_is_decompressed() {
    let world = World::new();
    let gzipped = gzip(&vec![0; MIB]).repeat(512);
    let twice = gzip(&gzip(&vec![0; MIB]).repeat(2048));
    for bytes in [gzipped, twice, zstd(0, 4096)] {
        world.write("t", bytes);
        for args in [
            &["import", "t", "-o", "out"][..],
            &["json", "t", "-o", "out"],
            &["view", "t", "-o", "out"],
            &["summary", "t"],
            &["folded", "t"],
            &["cut", "t", "--from", "0s", "-o", "out"],
        ] {
            run(&world, args).returned(1);
            assert!(!world.path("out").exists(), "{args:?}");
        }
    }
}

#[test]
fn files_of_other_programs_are_decompressed_up_to_the_limit() {
    let world = World::new();
    let stacks = gzip(&b"main;work 3\n".repeat(MIB / 12)).repeat(64);
    let event = br#"{"ph":"C","name":"a","pid":1,"ts":1,"args":{"a":1}},"#;
    let mut json = gzip(b"[");
    json.extend(gzip(&event.repeat(MIB / event.len())).repeat(64));
    for (bytes, readers) in [
        (
            &stacks,
            &[
                &["import", "t", "-o", "out"][..],
                &["view", "t", "-o", "out"],
                &["folded", "t"],
            ][..],
        ),
        (
            &json,
            &[
                &["import", "t", "-o", "out"],
                &["json", "t", "-o", "out"],
                &["view", "t", "-o", "out"],
                &["summary", "t"],
            ],
        ),
    ] {
        world.write("t", bytes);
        for args in readers {
            let args = [args, &["--max-unpacked", "1M"][..]].concat();
            let output = run(&world, &args);
            assert!([1, 3].contains(&output.code), "{args:?}: {output:?}");
            output.complained("the limit of 1 MiB; --max-unpacked allows more");
        }
    }
}

/// Returns a trace whose slices begin on a track each, and never end.
fn open_slices(count: u64) -> Vec<u8> {
    let mut trace = clocks();
    for track in 1..=count {
        trace.extend(encode(|trace| {
            trace.nested(1, |packet| {
                packet.varint(8, 2000 + track);
                packet.varint(10, 2);
                packet.nested(11, |event| {
                    event.varint(9, 1);
                    event.varint(11, 1000 + track);
                });
            });
        }));
    }
    trace
}

#[test]
fn json_and_view_stay_within_their_memory_limit() {
    let world = World::new();
    world.write("t", open_slices(60_000));
    for args in [
        &[
            "json",
            "t",
            "--part",
            "64K",
            "--max-memory",
            "16M",
            "-o",
            "out",
        ][..],
        &["view", "t", "--max-memory", "16M", "-o", "out"],
    ] {
        let (output, peak) = measured(&world, args);
        let own = peak.own;
        assert!(own < 32 << 10, "{args:?}: {own} KiB");
        output.returned(3);
    }
}
