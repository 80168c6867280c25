//! The memory limits of readers.
//!
//! Each reader runs in its own process: the test runs itself, and the child prints its peak memory
//! at the end.

use std::env;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;

use ferretto_text::print::TextPrinter;
use ferretto_trace::events::EventReader;
use ferretto_trace::profile::{CallTree, Selection, folded, pprof, read_profile_within};
use ferretto_trace::{Limits, TraceReader, summarize_within};
use ferretto_wire::encode;
use flate2::Compression;

/// The default memory limit of readers.
const DEFAULT: u64 = 256 << 20;
/// The smallest memory limit of readers.
const SMALL: u64 = Limits::MIN_MEMORY;
const READERS: [&str; 4] = ["text", "summary", "events", "profile"];
/// The memory of the program itself.
const PROGRAM_BYTES: u64 = 12 << 20;

/// Returns a compressed packet that decompresses to `bytes` followed by `millions` million copies
/// of one byte.
fn bomb(bytes: &[u8], millions: usize) -> Vec<u8> {
    let block = |kind: u32, length: usize| (kind << 1 | (length as u32) << 3).to_le_bytes();
    // A frame of Zstandard with a window of 8 MiB.
    let mut frame = b"\x28\xb5\x2f\xfd\x00\x68".to_vec();
    frame.extend(&block(0, bytes.len())[..3]);
    frame.extend(bytes);
    for _ in 0..8 * millions {
        frame.extend(&block(1, 1 << 17)[..3]);
        frame.push(b'a');
    }
    frame.extend(&[1, 0, 0]);
    encode(|trace| trace.nested(1, |packet| packet.bytes(133, &frame)))
}

fn compressed(stream: &[u8]) -> Vec<u8> {
    encode(|trace| trace.nested(1, |packet| packet.bytes(50, stream)))
}

/// Returns the tag and length of a field whose content follows.
fn head(number: u32, length: u64) -> Vec<u8> {
    let varint = |value: u64| encode(|out| out.varint(1, value))[1..].to_vec();
    [varint(u64::from(number << 3 | 2)), varint(length)].concat()
}

/// Returns a packet with a string of the maximum size of any packet.
fn long_string() -> Vec<u8> {
    let length = 500 << 20;
    let inner = head(900, length);
    bomb(&[head(1, length + inner.len() as u64), inner].concat(), 500)
}

/// Returns an event of the maximum packet size whose text is not UTF-8.
fn invalid_utf8() -> Vec<u8> {
    let limit = Limits::memory(SMALL).packet_bytes() as usize;
    encode(|trace| {
        trace.nested(1, |packet| {
            packet.varint(10, 1);
            packet.nested(11, |event| event.bytes(23, &vec![0xff; limit - 64]));
        });
    })
}

/// Returns a trace with many distinct entries for all tables.
fn many_entries() -> Vec<u8> {
    let mut file = Vec::new();
    for chunk in 0..8u64 {
        let packets = encode(|trace| {
            for n in 0..3000u64 {
                let n = chunk * 3000 + n + 1;
                trace.nested(1, |packet| {
                    packet.varint(8, n);
                    packet.varint(10, n % 5000);
                    packet.varint(13, 1);
                    packet.nested(2, |tree| {
                        tree.nested(1, |process| {
                            process.varint(1, n);
                            process.bytes(3, format!("program {n:0200}").as_bytes());
                        });
                    });
                    packet.nested(12, |interned| {
                        for table in [2, 5, 16, 17] {
                            interned.nested(table, |entry| {
                                entry.varint(1, n);
                                entry.bytes(2, format!("a name {n:0100}").as_bytes());
                            });
                        }
                    });
                    packet.nested(60, |track| {
                        track.varint(1, n);
                        track.bytes(2, format!("a track {n:0100}").as_bytes());
                    });
                });
            }
        });
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), Compression::fast());
        zlib.write_all(&packets).unwrap();
        file.extend(compressed(&zlib.finish().unwrap()));
    }
    file
}

/// Returns a trace in which an event refers to an interned string many times.
fn repeated_argument() -> Vec<u8> {
    encode(|trace| {
        trace.nested(1, |packet| {
            packet.varint(10, 1);
            packet.varint(13, 1);
            packet.nested(12, |interned| {
                interned.nested(29, |entry| {
                    entry.varint(1, 1);
                    entry.bytes(2, &[b'x'; 1 << 19]);
                });
            });
        });
        trace.nested(1, |packet| {
            packet.varint(10, 1);
            packet.varint(8, 1);
            packet.nested(11, |event| {
                event.varint(9, 3);
                for _ in 0..10_000 {
                    event.nested(4, |argument| {
                        argument.bytes(10, b"a");
                        argument.varint(17, 1);
                    });
                }
            });
        });
    })
}

/// Returns a trace with distinct callstacks of maximum depth, whose functions have long names.
fn deep_callstacks() -> Vec<u8> {
    encode(|trace| {
        trace.nested(1, |packet| {
            packet.varint(10, 1);
            packet.varint(13, 1);
            packet.nested(12, |interned| {
                for n in 1..30u64 {
                    interned.nested(5, |entry| {
                        entry.varint(1, n);
                        entry.bytes(2, format!("{n:020000}").as_bytes());
                    });
                    interned.nested(6, |frame| {
                        frame.varint(1, n);
                        frame.varint(2, n);
                    });
                }
                for n in 1..200u64 {
                    interned.nested(7, |stack| {
                        stack.varint(1, n);
                        (0..1000).for_each(|at| stack.varint(2, 1 + (n * at) % 29));
                    });
                }
            });
        });
        for n in 1..200u64 {
            trace.nested(1, |packet| {
                packet.varint(10, 1);
                packet.varint(8, n);
                packet.nested(66, |sample| {
                    sample.varint(1, 0);
                    sample.varint(2, 1);
                    sample.varint(3, 1);
                    sample.varint(4, n);
                });
            });
        }
    })
}

fn run(reader: &str, file: File, limits: Limits) {
    match reader {
        "text" => {
            let mut packets = TraceReader::with_limits(file, limits);
            let mut printer = TextPrinter::new(io::sink());
            packets
                .read_all(|packet| printer.packet(packet.bytes).unwrap())
                .unwrap();
        }
        "summary" => drop(summarize_within(file, limits, |_| Vec::new()).unwrap()),
        "events" => {
            let mut packets = TraceReader::with_limits(file, limits);
            let mut events = EventReader::with_limits(limits);
            packets
                .read_all(|packet| drop(events.add(packet.bytes)))
                .unwrap();
            events.finish();
        }
        _ => {
            let selection = Selection::default();
            let (profile, counts, _) = read_profile_within(file, selection, limits).unwrap();
            drop(CallTree::new(&profile, &counts, &Default::default()));
            drop(folded(&profile, &counts, &Default::default()));
            drop(pprof(&profile, &counts, None));
        }
    }
}

/// Returns the peak memory of this process, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.unwrap().trim().trim_end_matches(" kB");
    kilobytes.parse::<u64>().unwrap() << 10
}

#[test]
fn every_reader_stays_within_its_memory_limit() {
    ferretto_testing::own_process!();
    if let Ok(reader) = env::var("MEMORY_TEST_READER") {
        let file = File::open(env::var_os("MEMORY_TEST_FILE").unwrap()).unwrap();
        let memory = env::var("MEMORY_TEST_LIMIT").unwrap();
        let limits = Limits::memory(memory.parse().unwrap());
        run(&reader, file, limits.with_decompressed(Some(1 << 30)));
        println!("peak {}", peak());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    type Make = fn() -> Vec<u8>;
    let files: [(&str, Make, u64); 5] = [
        ("long_string", long_string, DEFAULT),
        ("invalid_utf8", invalid_utf8, SMALL),
        ("many_entries", many_entries, SMALL),
        ("repeated_argument", repeated_argument, SMALL),
        ("deep_callstacks", deep_callstacks, SMALL),
    ];
    for (name, make, limit) in files {
        std::fs::write(&path, make()).unwrap();
        for reader in READERS {
            let bytes = measure(reader, &path, limit);
            println!("{name}, {reader}: {} MiB", bytes >> 20);
            assert!(
                bytes < limit + PROGRAM_BYTES,
                "{name}, {reader}: {bytes} bytes"
            );
        }
    }
}

fn measure(reader: &str, path: &Path, limit: u64) -> u64 {
    let child = Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "memory::every_reader_stays_within_its_memory_limit",
            "--nocapture",
        ])
        .env("MEMORY_TEST_READER", reader)
        .env("MEMORY_TEST_FILE", path)
        .env("MEMORY_TEST_LIMIT", limit.to_string())
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&child.stdout);
    let peak = out.lines().find_map(|line| line.split_once("peak "));
    let Some((_, peak)) = peak else {
        panic!("{reader}: {out}{}", String::from_utf8_lossy(&child.stderr));
    };
    peak.trim().parse().unwrap()
}
