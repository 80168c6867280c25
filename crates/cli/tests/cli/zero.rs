//! One zero: all commands count times from the first event of a trace.

use std::fs::File;

use ferretto_proto::fields::remote_clock_sync::{self, synced_clocks};
use ferretto_proto::fields::{
    callstack, clock_snapshot, frame, interned_data, interned_string, perf_sample, process_tree,
    trace, trace_packet, tracing_service_event, track_descriptor, track_event,
};
use ferretto_tables::{Options, Trace};
use ferretto_trace::Bounds;
use ferretto_view::View;
use ferretto_wire::{Encoder, encode};

use crate::world::World;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
/// The time of the first clock snapshot.
const SNAPSHOT: u64 = 100 * SECOND;
/// The time of the first event.
const FIRST: u64 = 103 * SECOND + 7;

type Packet<'a> = Encoder<'a, Vec<u8>>;

fn snapshot(packet: &mut Packet<'_>, number: u32, at: u64) {
    packet.nested(number, |snapshot| {
        for clock in [1, 3, 6] {
            snapshot.nested(clock_snapshot::CLOCKS, |reading| {
                reading.varint(clock_snapshot::clock::CLOCK_ID, clock);
                reading.varint(clock_snapshot::clock::TIMESTAMP, at);
            });
        }
    });
}

/// Returns a trace with a slice of 40 ms and a sample in each tenth of five seconds. The samples
/// are of this machine, whose clock is a thousand seconds ahead unless it is the host.
fn recording(machine: u32) -> Vec<u8> {
    let ahead = match machine {
        0 => 0,
        _ => 1_000 * SECOND,
    };
    encode(|out| {
        let mut packet = |sequence: u64, time: u64, write: &dyn Fn(&mut Packet<'_>)| {
            out.nested(trace::PACKET, |packet| {
                packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, sequence);
                packet.varint(trace_packet::TIMESTAMP, time);
                write(packet);
            });
        };
        packet(1, SNAPSHOT, &|packet| {
            snapshot(packet, trace_packet::CLOCK_SNAPSHOT, SNAPSHOT);
        });
        if machine != 0 {
            packet(1, SNAPSHOT, &|packet| {
                packet.varint(trace_packet::MACHINE_ID, machine.into());
                packet.nested(trace_packet::REMOTE_CLOCK_SYNC, |sync| {
                    for wait in [0, 2_000] {
                        sync.nested(remote_clock_sync::SYNCED_CLOCKS, |both| {
                            let client = SNAPSHOT + ahead + wait;
                            snapshot(both, synced_clocks::CLIENT_CLOCKS, client);
                            snapshot(both, synced_clocks::HOST_CLOCKS, SNAPSHOT + wait + 1_000);
                        });
                    }
                });
            });
        }
        // Recordings are split between two reads of the service's buffers.
        let read = |packet: &mut Packet<'_>| {
            packet.nested(trace_packet::SERVICE_EVENT, |event| {
                event.bool(tracing_service_event::READ_TRACING_BUFFERS_COMPLETED, true);
            });
        };
        // Descriptions are no events.
        packet(1, SNAPSHOT + SECOND, &|packet| {
            packet.nested(trace_packet::PROCESS_TREE, |tree| {
                tree.nested(process_tree::PROCESSES, |process| {
                    process.varint(process_tree::process::PID, 40);
                    process.string(process_tree::process::CMDLINE, "program");
                });
            });
        });
        packet(2, SNAPSHOT + SECOND, &|packet| {
            packet.varint(trace_packet::SEQUENCE_FLAGS, 1);
            packet.nested(trace_packet::TRACK_DESCRIPTOR, |track| {
                track.varint(track_descriptor::UUID, 5);
                track.string(track_descriptor::NAME, "track");
            });
        });
        // The end of a slice that began before the recording.
        packet(2, FIRST - SECOND, &|packet| {
            packet.nested(trace_packet::TRACK_EVENT, |event| {
                event.varint(track_event::TYPE, 2);
                event.varint(track_event::TRACK_UUID, 5);
            });
        });
        packet(3, SNAPSHOT + ahead + SECOND, &|packet| {
            packet.varint(trace_packet::MACHINE_ID, machine.into());
            packet.varint(trace_packet::SEQUENCE_FLAGS, 1);
            packet.nested(trace_packet::INTERNED_DATA, |interned| {
                interned.nested(interned_data::FUNCTION_NAMES, |name| {
                    name.varint(interned_string::IID, 1);
                    name.string(interned_string::STR, "work");
                });
                interned.nested(interned_data::FRAMES, |frame| {
                    frame.varint(frame::IID, 1);
                    frame.varint(frame::FUNCTION_NAME_ID, 1);
                });
                interned.nested(interned_data::CALLSTACKS, |stack| {
                    stack.varint(callstack::IID, 1);
                    stack.varint(callstack::FRAME_IDS, 1);
                });
            });
        });
        for tenth in 0..50 {
            let start = FIRST + tenth * 100 * MS;
            packet(1, start, &read);
            for (kind, time) in [(1, start), (2, start + 40 * MS)] {
                packet(2, time, &|packet| {
                    packet.nested(trace_packet::TRACK_EVENT, |event| {
                        event.varint(track_event::TYPE, kind);
                        event.varint(track_event::TRACK_UUID, 5);
                        event.string(track_event::NAME, "request");
                    });
                });
            }
            packet(3, start + ahead + 50 * MS, &|packet| {
                packet.varint(trace_packet::MACHINE_ID, machine.into());
                packet.varint(trace_packet::SEQUENCE_FLAGS, 2);
                packet.nested(trace_packet::PERF_SAMPLE, |sample| {
                    sample.varint(perf_sample::PID, 40);
                    sample.varint(perf_sample::TID, 40);
                    sample.varint(perf_sample::CALLSTACK_IID, 1);
                });
            });
        }
    })
}

/// The number of slices and of samples.
type Counts = (usize, usize);

/// Returns the number of events with a time between two, as the tables have them. The slices that
/// a part repeats are left out.
fn counts(trace: &Trace, from: i64, to: i64) -> Counts {
    let (tables, strings) = (trace.tables(), trace.strings());
    let is_within = |ts: i64| ts >= from && ts < to;
    let slices = (0..tables.slice.len()).filter(|row| {
        let args = tables.slice.arg_set_id().get(*row);
        let mut args = args.into_iter().flat_map(|set| tables.args.set(set));
        let is_repeated = args.any(|arg| strings.text(arg.key) == "debug.began_ns");
        is_within(tables.slice.ts().get(*row)) && !is_repeated
    });
    let samples = &tables.profiler_sample;
    let samples = (0..samples.len()).filter(|row| is_within(samples.ts().get(*row)));
    (slices.count(), samples.count())
}

/// Returns the number of samples that `folded` prints.
fn folded(world: &World, args: &[&str]) -> usize {
    let lines = world.run("ferretto", &[&["folded"], args].concat());
    if lines.code == 1 {
        return 0;
    }
    let lines = lines.returned(0);
    let counts = lines.text().lines().map(|line| {
        let (_, count) = line.rsplit_once(' ').expect("a count");
        count.parse::<usize>().expect("a count")
    });
    counts.sum()
}

/// Compares the readers of a file: its length, and the events of one second of it.
#[track_caller]
fn compare(world: &World, name: &str, (from, to): (&str, &str), expected: Option<Counts>) {
    let bytes = world.read(name);
    let trace = Trace::read(bytes.as_slice(), &Options::default()).expect("a trace");
    let bounds = trace.tables().trace_bounds.row(0).expect("bounds");
    let found = Bounds::read(bytes.as_slice(), Default::default()).expect("a trace");
    let found = found.expect("events");
    let of_tables = (
        bounds.start_ts.cast_unsigned(),
        bounds.end_ts.cast_unsigned(),
    );
    assert_eq!((found.start, found.end), of_tables, "{name}");
    assert_eq!(
        world.summary(name).duration_ns,
        Some(found.length()),
        "{name}"
    );
    let ms = |text: &str| {
        text.trim_end_matches("ms")
            .parse::<i64>()
            .expect("a number")
    };
    let (after, before) = (ms(from) * MS as i64, ms(to) * MS as i64);
    let of_window = counts(&trace, bounds.start_ts + after, bounds.start_ts + before);
    if let Some(expected) = expected {
        assert_eq!(of_window, expected, "{name}");
    }
    let (slices, samples) = of_window;
    // The viewer's ruler.
    let view = View::new(trace, name, 1);
    assert_eq!(view.duration().cast_unsigned(), found.length(), "{name}");
    let range = view.summary(after as f64, (before - 1) as f64, None);
    let names = range["names"].as_array().expect("names");
    let slices_of_view = names.iter().filter(|of| of["name"] != "");
    let counted: u64 = slices_of_view.filter_map(|of| of["count"].as_u64()).sum();
    assert_eq!(counted as usize, slices, "{name}: {range}");
    let window = ["--from", from, "--to", to];
    // Profiles.
    let args = [&[name][..], &window].concat();
    assert_eq!(folded(world, &args), samples, "{name}");
    if samples > 0 {
        let pprof = [&["pprof", name, "-o", "p.pb.gz"][..], &window].concat();
        world.run("ferretto", &pprof).returned(0);
        world
            .run("ferretto", &["import", "p.pb.gz", "-o", "of-pprof"])
            .returned(0);
        assert_eq!(folded(world, &["of-pprof"]), samples, "{name}");
        let image = [&["flamegraph", name, "-o", "-"][..], &window].concat();
        let image = world.run("ferretto", &image).returned(0);
        let label = format!("({samples} samples");
        assert!(image.text().contains(&label), "{name}: no {label}");
    }
    // A part has the same events.
    let cut = [&["cut", name, "-o", "part"][..], &window].concat();
    world.run("ferretto", &cut).returned(0);
    let part = File::open(world.path("part")).expect("a file");
    let part = Trace::read(part, &Options::default()).expect("a trace");
    assert_eq!(counts(&part, i64::MIN, i64::MAX), of_window, "{name}");
}

#[test]
fn recordings_and_their_parts_begin_with_the_first_event() {
    let world = World::new();
    for (name, machine) in [("t", 0), ("machines", 7)] {
        world.write(name, recording(machine));
        compare(&world, name, ("1000ms", "2000ms"), Some((10, 10)));
        // Absolute times select the same.
        let from = (FIRST + SECOND).to_string();
        let to = (FIRST + 2 * SECOND).to_string();
        assert_eq!(folded(&world, &[name, "--from", &from, "--to", &to]), 10);
        let cut = ["cut", name, "--from", "1020ms", "--to", "4s", "-o", "c"];
        world.run("ferretto", &cut).returned(0);
        compare(&world, "c", ("550ms", "1550ms"), None);
        let split = ["split", name, "--every", "2s"];
        world.run("ferretto", &split).returned(0);
        let parts = world.names().into_iter();
        let parts: Vec<_> = parts
            .filter(|it| it.starts_with(&format!("{name}-")))
            .collect();
        assert!(parts.len() > 1, "{parts:?}");
        for part in parts {
            compare(&world, &part, ("100ms", "700ms"), None);
        }
    }
}

#[test]
fn imported_files_begin_with_their_first_event() {
    let world = World::new();
    let mut script = String::new();
    for sample in 0..30 {
        let ms = 5_000 + 100 * sample;
        let (seconds, rest) = (ms / 1_000, ms % 1_000);
        script +=
            &format!("program 40 [000] {seconds}.{rest:03}000: cpu-clock:\n\t1234 work (/p)\n\n");
    }
    world.write("script.txt", script);
    let events = (0..30).map(|slice| {
        let ts = 7_000_000 + 100_000 * slice;
        format!(r#"{{"ph":"X","name":"s","pid":1,"tid":1,"ts":{ts},"dur":40000}}"#)
    });
    let events: Vec<_> = events.collect();
    world.write("chrome.json", format!("[{}]", events.join(",")));
    for (file, expected) in [("script.txt", (0, 10)), ("chrome.json", (10, 0))] {
        world
            .run("ferretto", &["import", file, "-o", "t"])
            .returned(0);
        compare(&world, "t", ("1000ms", "2000ms"), Some(expected));
    }
    // All samples of an aggregated profile have one time, the first.
    world.write("stacks.txt", "program;main;work 30\n");
    world
        .run("ferretto", &["import", "stacks.txt", "-o", "t"])
        .returned(0);
    assert_eq!(folded(&world, &["t", "--from", "0", "--to", "1s"]), 30);
    assert_eq!(folded(&world, &["t", "--from", "1s"]), 0);
}

/// Returns a trace of a clock that no snapshot relates to boot time, with a slice of five seconds
/// and one of a second in it.
fn without_boot_time() -> Vec<u8> {
    const MONOTONIC: u64 = 3;
    encode(|out| {
        let mut packet = |write: &dyn Fn(&mut Packet<'_>)| {
            out.nested(trace::PACKET, |packet| {
                packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, 1);
                write(packet);
            });
        };
        packet(&|packet| {
            packet.varint(trace_packet::SEQUENCE_FLAGS, 1);
            packet.nested(trace_packet::CLOCK_SNAPSHOT, |snapshot| {
                for (clock, at) in [(MONOTONIC, SNAPSHOT), (1, 70 * SNAPSHOT)] {
                    snapshot.nested(clock_snapshot::CLOCKS, |reading| {
                        reading.varint(clock_snapshot::clock::CLOCK_ID, clock);
                        reading.varint(clock_snapshot::clock::TIMESTAMP, at);
                    });
                }
                snapshot.varint(clock_snapshot::PRIMARY_TRACE_CLOCK, MONOTONIC);
            });
        });
        packet(&|packet| {
            packet.nested(trace_packet::TRACK_DESCRIPTOR, |track| {
                track.varint(track_descriptor::UUID, 11);
                track.string(track_descriptor::NAME, "track");
            });
        });
        let slices = [(0, Some("outer")), (2, Some("inner")), (3, None), (5, None)];
        for (second, name) in slices {
            packet(&|packet| {
                packet.varint(trace_packet::TIMESTAMP, FIRST + second * SECOND);
                packet.nested(trace_packet::TRACK_EVENT, |event| {
                    event.varint(track_event::TYPE, 2 - u64::from(name.is_some()));
                    event.varint(track_event::TRACK_UUID, 11);
                    if let Some(name) = name {
                        event.string(track_event::NAME, name);
                    }
                });
            });
        }
    })
}

#[test]
fn a_trace_without_boot_time_is_in_its_own_clock() {
    let world = World::new();
    world.write("t", without_boot_time());
    let events = |name: &str| -> Vec<String> {
        let lines = world.run("ferretto", &["text", "--resolve", name]);
        let lines = lines.returned(0).text().to_owned();
        let lines = lines.lines().map(|line| {
            let at = line.find(']').expect("a CPU");
            line[at + 1..].trim().to_owned()
        });
        lines.collect()
    };
    let expected = [
        "103.000000007: begin: outer on track",
        "105.000000007: begin: inner on track",
        "106.000000007: end: on track",
        "108.000000007: end: on track",
    ];
    assert_eq!(events("t"), expected);
    let summary = world.summary("t");
    assert_eq!(summary.duration_ns, Some(5 * SECOND));
    assert!(summary.health.is_empty());
    world.run("ferretto", &["json", "t", "-o", "j"]).returned(0);
    world.run("ferretto", &["view", "t", "-o", "v"]).returned(0);
    // A part continues the slice that is open at its start.
    let cut = ["cut", "t", "--from", "1s", "--to", "4s", "-o", "part"];
    world.run("ferretto", &cut).returned(0);
    let part = Trace::read(&world.read("part")[..], &Options::default()).unwrap();
    assert!(part.health().is_empty());
    let slices = part.tables().slice.len();
    assert_eq!(slices, 2, "{:?}", events("part"));
}
