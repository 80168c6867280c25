//! `ferretto json` reads a trace in parts: slices that overlap and continue from part to part.

use ferretto_proto::fields::{
    block_io_start_ftrace_event as start, block_rq_issue_ftrace_event as issue, ftrace_event,
    ftrace_event_bundle, trace, trace_packet, tracing_service_event, track_descriptor, track_event,
};
use ferretto_tables::{Options, Trace};
use ferretto_testing::Random;
use ferretto_wire::{Encoder, encode};
use serde_json::Value;

use crate::world::World;

type Packet<'a> = Encoder<'a, Vec<u8>>;

/// The events that begin and end requests of one kind.
#[derive(Debug, Clone, Copy)]
struct Kinds {
    begin: u32,
    end: u32,
    rwbs: u32,
}

const DRIVER: Kinds = Kinds {
    begin: ftrace_event::BLOCK_RQ_ISSUE,
    end: ftrace_event::BLOCK_RQ_COMPLETE,
    rwbs: issue::RWBS,
};
const ACCOUNTING: Kinds = Kinds {
    begin: ftrace_event::BLOCK_IO_START,
    end: ftrace_event::BLOCK_IO_DONE,
    rwbs: start::RWBS,
};

fn kernel_event(
    packet: &mut Packet<'_>,
    time: u64,
    kind: u32,
    write: impl FnOnce(&mut Packet<'_>),
) {
    packet.nested(trace_packet::FTRACE_EVENTS, |bundle| {
        bundle.varint(ftrace_event_bundle::CPU, 0);
        bundle.nested(ftrace_event_bundle::EVENT, |event| {
            event.varint(ftrace_event::TIMESTAMP, time);
            event.varint(ftrace_event::PID, 1);
            event.nested(kind, write);
        });
    });
}

/// Returns a trace of requests that overlap, of slices on tracks with the same name, and of
/// padding. `step` is the time between two events.
fn recording(kinds: &[Kinds], step: u64, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let mut open: Vec<(u64, &Kinds, bool)> = Vec::new();
    let mut slices: [u64; 3] = [0; 3];
    encode(|out| {
        let mut packet = |sequence: u64, write: &mut dyn FnMut(&mut Packet<'_>)| {
            out.nested(trace::PACKET, |packet| {
                packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, sequence);
                write(packet);
            });
        };
        for track in 0..3 {
            packet(2, &mut |packet| {
                packet.nested(trace_packet::TRACK_DESCRIPTOR, |descriptor| {
                    descriptor.varint(track_descriptor::UUID, 10 + track);
                    descriptor.string(track_descriptor::NAME, "calls");
                });
            });
        }
        for number in 0..600_u64 {
            let time = 1_000_000 + number * step;
            if number % 20 == 0 {
                packet(1, &mut |packet| {
                    packet.varint(trace_packet::TIMESTAMP, time);
                    packet.nested(trace_packet::SERVICE_EVENT, |event| {
                        event.bool(tracing_service_event::READ_TRACING_BUFFERS_COMPLETED, true);
                    });
                });
            }
            let which = random.below(3);
            let begins = match slices[which] {
                0 => true,
                3 => false,
                _ => random.one_in(2),
            };
            slices[which] = if begins {
                slices[which] + 1
            } else {
                slices[which] - 1
            };
            packet(2, &mut |packet| {
                packet.varint(trace_packet::TIMESTAMP, time);
                packet.nested(trace_packet::TRACK_EVENT, |event| {
                    event.varint(track_event::TYPE, if begins { 1 } else { 2 });
                    event.varint(track_event::TRACK_UUID, 10 + which as u64);
                    event.string(track_event::NAME, "call");
                });
            });
            let is_end = !open.is_empty() && (open.len() > 6 || random.one_in(2));
            let (sector, of, is_end, is_write) = if is_end {
                let (sector, of, is_write) = open.swap_remove(random.below(open.len()));
                (sector, of, true, is_write)
            } else {
                let of = &kinds[random.below(kinds.len())];
                let is_write = random.one_in(2);
                // One in ten is merged into another, and never ends.
                if !random.one_in(10) {
                    open.push((number, of, is_write));
                }
                (number, of, false, is_write)
            };
            packet(3, &mut |packet| {
                let kind = if is_end { of.end } else { of.begin };
                kernel_event(packet, time + 1, kind, |request| {
                    request.varint(issue::DEV, 65_024);
                    request.varint(issue::SECTOR, sector);
                    if !is_end {
                        request.varint(issue::BYTES, 4_096);
                        request.string(of.rwbs, if is_write { "W" } else { "R" });
                    }
                });
            });
        }
    })
}

/// A slice: its name, start, duration and sector.
type Slice = (String, i64, i64, Option<i64>);

/// Returns the slices of the tables.
fn of_tables(trace: &Trace) -> Vec<Slice> {
    let (tables, strings) = (trace.tables(), trace.strings());
    let rows = (0..tables.slice.len()).map(|row| {
        let args = tables.slice.arg_set_id().get(row);
        let mut args = args.into_iter().flat_map(|set| tables.args.set(set));
        let sector = args.find(|arg| strings.text(arg.key) == "sector");
        (
            strings.text(tables.slice.name().get(row)).to_owned(),
            tables.slice.ts().get(row),
            tables.slice.dur().get(row),
            sector.and_then(|arg| arg.value.as_int()),
        )
    });
    let mut slices: Vec<_> = rows.collect();
    slices.sort();
    slices
}

/// Returns the slices of `json`. Fails if two overlap on a thread without nesting.
fn of_json(json: &Value) -> Vec<Slice> {
    let events = json["traceEvents"].as_array().expect("events");
    let nanoseconds = |value: &Value| (value.as_f64().expect("a time") * 1000.0).round() as i64;
    let mut slices = Vec::new();
    let mut spans = Vec::new();
    for event in events {
        let dur = match event["ph"].as_str() {
            Some("X") => nanoseconds(&event["dur"]),
            Some("i") => 0,
            Some("B") => -1,
            _ => continue,
        };
        let ts = nanoseconds(&event["ts"]);
        let name = event["name"].as_str().expect("a name").to_owned();
        slices.push((name, ts, dur, event["args"]["sector"].as_i64()));
        let end = if dur < 0 { i64::MAX } else { ts + dur };
        spans.push((event["tid"].as_i64(), ts, std::cmp::Reverse(end)));
    }
    spans.sort();
    let mut open: Vec<(Option<i64>, i64)> = Vec::new();
    for (tid, ts, std::cmp::Reverse(end)) in spans {
        while open
            .last()
            .is_some_and(|(of, until)| *of != tid || *until <= ts)
        {
            open.pop();
        }
        let outer = open.last().map_or(i64::MAX, |(_, until)| *until);
        assert!(end <= outer, "{ts} to {end} is not within {outer}");
        open.push((tid, end));
    }
    slices.sort();
    slices
}

#[test]
fn slices_that_overlap_continue_from_part_to_part() {
    let world = World::new();
    // With the longer step, state that a part repeats is older than five seconds.
    for (seed, (kinds, step)) in [
        (&[DRIVER][..], 1_000),
        (&[ACCOUNTING], 1_000),
        (&[DRIVER, ACCOUNTING], 1_000),
        (&[DRIVER], 1_000_000_000),
        (&[ACCOUNTING], 1_000_000_000),
    ]
    .into_iter()
    .enumerate()
    {
        let bytes = recording(kinds, step, 7 + seed as u64);
        world.write("t", &bytes);
        let trace = Trace::read(bytes.as_slice(), &Options::default()).expect("a trace");
        let expected = of_tables(&trace);
        for part in ["1M", "4K"] {
            let json = world.run("ferretto", &["json", "t", "--part", part, "-o", "-"]);
            let json = json.returned(0);
            let json: Value = serde_json::from_str(json.text()).expect("JSON");
            let slices = of_json(&json);
            let missing: Vec<_> = expected.iter().filter(|it| !slices.contains(it)).collect();
            let added: Vec<_> = slices.iter().filter(|it| !expected.contains(it)).collect();
            assert!(
                missing.is_empty() && added.is_empty(),
                "{kinds:?}, {step}, {part}: missing {missing:#?}, added {added:#?}"
            );
            assert_eq!(slices.len(), expected.len(), "{kinds:?}, {part}");
        }
    }
}
