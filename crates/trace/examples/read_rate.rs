//! Reads a trace repeatedly and prints the nanoseconds per packet: `read_rate MODE FILE [TIMES]`.
//! MODE is `packets`, `events`, `profile`, `summary`, or `make` to write a trace of track events
//! and context switches to FILE.
//!
//! Also useful with one pass under `valgrind --tool=none` and `--tool=callgrind`: instruction
//! counts do not depend on the load of the machine.

use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::time::Instant;

use ferretto_format::sequence_flags::{INCREMENTAL_STATE_CLEARED, NEEDS_INCREMENTAL_STATE};
use ferretto_format::{Preamble, SequenceClocks};
use ferretto_proto::fields::{
    ftrace_event, ftrace_event_bundle, interned_data, interned_string, sched_switch_ftrace_event,
    trace_packet, trace_packet_defaults, track_descriptor, track_event, track_event_defaults,
};
use ferretto_trace::events::EventReader;
use ferretto_trace::profile::ProfileReader;
use ferretto_trace::{Summarizer, TraceReader};
use ferretto_wire::encode;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (mode, path, times) = match arguments.as_slice() {
        [mode, path] => (mode.as_str(), path, 1),
        [mode, path, times] => (mode.as_str(), path, times.parse()?),
        _ => {
            return Err("usage: read_rate packets|events|profile|summary|make FILE [TIMES]".into());
        }
    };
    if mode == "make" {
        return make(path);
    }
    let bytes = std::fs::read(path)?;
    for _ in 0..times {
        let begin = Instant::now();
        let mut count = 0u64;
        let mut reader = TraceReader::new(&bytes[..]);
        match mode {
            "packets" => {
                reader.read_all(|packet| count += u64::from(!black_box(packet.bytes).is_empty()))?
            }
            "events" => {
                let mut events = EventReader::new();
                reader.read_all(|packet| {
                    count += 1;
                    black_box(events.add(packet.bytes));
                })?
            }
            "profile" => {
                let mut samples = ProfileReader::new();
                reader.read_all(|packet| {
                    count += 1;
                    black_box(samples.add(packet.bytes));
                })?
            }
            "summary" => {
                let mut summary = Summarizer::new();
                let damage = reader.read_all(|packet| {
                    count += 1;
                    summary.add(packet.bytes);
                })?;
                black_box(summary.finish());
                damage
            }
            _ => return Err(format!("unknown mode {mode:?}").into()),
        };
        let ns = begin.elapsed().as_nanos() as f64;
        println!(
            "{count} packets, {:.1} ns each, {:.0} MB/s",
            ns / count as f64,
            bytes.len() as f64 * 1e3 / ns
        );
    }
    Ok(())
}

/// The number of threads that write track events, and the number of consecutive packets of each.
const SEQUENCES: u64 = 8;
const RUN: u64 = 32;
const EVENTS: u64 = 500_000;
const NAMES: u64 = 40;
/// The number of context switches in a bundle; each run of events is followed by a bundle.
const SWITCHES: u64 = 16;

/// Writes a trace like the service does: runs of track events with incremental timestamps, with
/// kernel events between them.
fn make(path: &str) -> Result<(), Box<dyn Error>> {
    let mut out = BufWriter::new(File::create(path)?);
    let mut now = 1_000_000_000;
    let mut clocks = vec![SequenceClocks::new(1, true, ferretto_format::clock::BOOTTIME); 9];
    for run in 0..EVENTS / RUN {
        let sequence = run % SEQUENCES + 1;
        let clock = &mut clocks[sequence as usize];
        if run < SEQUENCES {
            begin_sequence(&mut out, clock, sequence, now)?;
        }
        for event in 0..RUN {
            now += 1_000 + event;
            add_event(&mut out, clock, sequence, event, now)?;
        }
        add_bundle(&mut out, run, now)?;
    }
    out.flush()?;
    Ok(())
}

fn add(out: &mut impl Write, packet: &[u8]) -> std::io::Result<()> {
    out.write_all(Preamble::new(packet.len()).as_bytes())?;
    out.write_all(packet)
}

/// Adds the service's own fields to a packet.
fn trust(packet: &mut ferretto_wire::Encoder<'_, Vec<u8>>, sequence: u64) {
    packet.varint(trace_packet::TRUSTED_UID, 1000);
    packet.varint(trace_packet::TRUSTED_PID, 4711);
    packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, sequence);
}

fn begin_sequence(
    out: &mut impl Write,
    clock: &mut SequenceClocks,
    sequence: u64,
    now: u64,
) -> std::io::Result<()> {
    clock.restart(now);
    let packet = encode(|packet| {
        packet.varint(trace_packet::SEQUENCE_FLAGS, INCREMENTAL_STATE_CLEARED);
        clock.write_snapshot(packet, now);
        packet.nested(trace_packet::TRACE_PACKET_DEFAULTS, |defaults| {
            let clock = clock.default_clock().into();
            defaults.varint(trace_packet_defaults::TIMESTAMP_CLOCK_ID, clock);
            defaults.nested(trace_packet_defaults::TRACK_EVENT_DEFAULTS, |event| {
                event.varint(track_event_defaults::TRACK_UUID, sequence);
            });
        });
        trust(packet, sequence);
    });
    add(out, &packet)?;
    let packet = encode(|packet| {
        packet.varint(trace_packet::SEQUENCE_FLAGS, NEEDS_INCREMENTAL_STATE);
        packet.nested(trace_packet::TRACK_DESCRIPTOR, |track| {
            track.varint(track_descriptor::UUID, sequence);
            track.string(track_descriptor::NAME, "a thread");
        });
        packet.nested(trace_packet::INTERNED_DATA, |interned| {
            for table in [interned_data::EVENT_CATEGORIES, interned_data::EVENT_NAMES] {
                for iid in 1..=NAMES {
                    interned.nested(table, |entry| {
                        entry.varint(interned_string::IID, iid);
                        entry.string(interned_string::STR, &format!("name {iid}"));
                    });
                }
            }
        });
        trust(packet, sequence);
    });
    add(out, &packet)
}

fn add_event(
    out: &mut impl Write,
    clock: &mut SequenceClocks,
    sequence: u64,
    event: u64,
    now: u64,
) -> std::io::Result<()> {
    let packet = encode(|packet| {
        packet.varint(trace_packet::SEQUENCE_FLAGS, NEEDS_INCREMENTAL_STATE);
        clock.write_timestamp(packet, clock.default_clock(), now);
        packet.nested(trace_packet::TRACK_EVENT, |body| {
            body.varint(track_event::TYPE, event % 2 + 1);
            if event.is_multiple_of(2) {
                body.varint(track_event::CATEGORY_IIDS, event % NAMES + 1);
                body.varint(track_event::NAME_IID, event % NAMES + 1);
            }
        });
        trust(packet, sequence);
    });
    add(out, &packet)
}

fn add_bundle(out: &mut impl Write, run: u64, now: u64) -> std::io::Result<()> {
    use ftrace_event_bundle as bundle;
    let packet = encode(|packet| {
        packet.nested(trace_packet::FTRACE_EVENTS, |events| {
            events.varint(bundle::CPU, run % 2);
            for switch in 0..SWITCHES {
                events.nested(bundle::EVENT, |event| {
                    event.varint(ftrace_event::TIMESTAMP, now + switch);
                    event.varint(ftrace_event::PID, switch);
                    event.nested(ftrace_event::SCHED_SWITCH, |body| {
                        body.string(sched_switch_ftrace_event::PREV_COMM, "one");
                        body.varint(sched_switch_ftrace_event::PREV_PID, switch);
                        body.string(sched_switch_ftrace_event::NEXT_COMM, "other");
                        body.varint(sched_switch_ftrace_event::NEXT_PID, switch + 1);
                    });
                });
            }
        });
        trust(packet, SEQUENCES + 1);
    });
    add(out, &packet)
}
