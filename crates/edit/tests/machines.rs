//! Merging of traces of several machines.

use ferretto_edit::{EditError, Machine, MachineMerger};
use ferretto_format::clock::BOOTTIME;
use ferretto_proto::fields::{
    clock_snapshot, trace_packet, trace_stats, tracing_service_event as event,
};
use ferretto_trace::{Summary, TraceReader, summarize};
use ferretto_wire::{Encoder, Fields, encode};

/// Returns a trace with these packets.
fn trace(packets: &[Vec<u8>]) -> Vec<u8> {
    encode(|out| packets.iter().for_each(|packet| out.bytes(1, packet)))
}

fn packet(sequence: u64, write: impl FnOnce(&mut Encoder<'_, Vec<u8>>)) -> Vec<u8> {
    encode(|out| {
        write(out);
        out.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, sequence);
    })
}

fn of_service(at: u64, kind: u32) -> Vec<u8> {
    packet(1, |out| {
        out.varint(trace_packet::TIMESTAMP, at);
        out.nested(trace_packet::SERVICE_EVENT, |event| event.bool(kind, true));
    })
}

/// Returns the trace of a machine whose service overwrote a number of chunks.
fn recorded(overwritten: u64) -> Vec<u8> {
    let clocks = |out: &mut Encoder<'_, Vec<u8>>| {
        out.nested(trace_packet::CLOCK_SNAPSHOT, |snapshot| {
            snapshot.nested(clock_snapshot::CLOCKS, |reading| {
                reading.varint(clock_snapshot::clock::CLOCK_ID, BOOTTIME.into());
                reading.varint(clock_snapshot::clock::TIMESTAMP, 5);
            });
        });
    };
    let stats = packet(1, |out| {
        out.nested(trace_packet::TRACE_STATS, |stats| {
            stats.nested(trace_stats::BUFFER_STATS, |buffer| {
                buffer.varint(trace_stats::buffer_stats::BUFFER_SIZE, 4096);
                buffer.varint(trace_stats::buffer_stats::CHUNKS_OVERWRITTEN, overwritten);
            });
            stats.nested(trace_stats::WRITER_STATS, |writer| {
                writer.varint(trace_stats::writer_stats::SEQUENCE_ID, 7);
            });
            stats.varint(trace_stats::FINAL_FLUSH_OUTCOME, 1);
        });
    });
    trace(&[
        packet(1, clocks),
        of_service(10, event::TRACING_STARTED),
        packet(7, |out| out.nested(trace_packet::FOR_TESTING, |_| ())),
        packet(9, |out| out.nested(trace_packet::FOR_TESTING, |_| ())),
        of_service(20, event::FLUSH_STARTED),
        of_service(30, event::TRACING_DISABLED),
        of_service(31, event::READ_TRACING_BUFFERS_COMPLETED),
        stats,
    ])
}

fn machine(id: u32, name: &str, ahead: u64) -> Machine {
    let exchange = |at: u64| (vec![(BOOTTIME, at + ahead)], vec![(BOOTTIME, at + 10)]);
    Machine {
        id,
        name: name.into(),
        clocks: vec![vec![exchange(1000), exchange(1020)]],
    }
}

fn merge(machines: &[(Machine, Vec<u8>)]) -> Vec<u8> {
    let mut merger = MachineMerger::new(Vec::new(), [7; 16], &[(BOOTTIME, 500)]).unwrap();
    for (machine, trace) in machines {
        merger.add(machine, &trace[..]).unwrap();
    }
    merger.finish().unwrap()
}

fn summary(trace: &[u8]) -> Summary {
    summarize(trace).unwrap()
}

#[test]
fn each_writer_has_its_own_sequence() {
    let machines = [machine(3, "one", 0), machine(4, "two", 0)];
    let merged = merge(&machines.map(|machine| (machine, recorded(0))));
    let mut writers = Vec::new();
    let mut of_stats = Vec::new();
    let mut reader = TraceReader::new(&merged[..]);
    while let Some(packet) = reader.next_packet().unwrap() {
        let number = |field| Fields::find(field, packet.bytes).and_then(|field| field.as_u64());
        if number(trace_packet::MACHINE_ID).is_none() {
            continue;
        }
        let id = number(trace_packet::TRUSTED_PACKET_SEQUENCE_ID);
        if Fields::find(trace_packet::FOR_TESTING, packet.bytes).is_some() {
            writers.push((number(trace_packet::MACHINE_ID).unwrap(), id.unwrap()));
        }
        if let Some(stats) = Fields::find(trace_packet::TRACE_STATS, packet.bytes) {
            let writer = Fields::find(trace_stats::WRITER_STATS, stats.as_bytes().unwrap());
            let writer = writer.unwrap().as_bytes().unwrap();
            of_stats.push(Fields::find(1, writer).unwrap().as_u64().unwrap());
        }
    }
    assert_eq!(
        writers.iter().map(|writers| writers.0).collect::<Vec<_>>(),
        [3, 3, 4, 4]
    );
    let mut ids: Vec<u64> = writers.iter().map(|writers| writers.1).collect();
    assert_eq!(of_stats, [ids[0], ids[2]]);
    ids.dedup();
    assert_eq!(ids.len(), 4, "{ids:?}");
}

#[test]
fn losses_are_attributed_to_their_machine() {
    let machines = [
        (machine(3, "one", 0), recorded(0)),
        (machine(4, "two", 7_000_000), recorded(12)),
    ];
    let summary = summary(&merge(&machines));
    assert!(summary.losses_known(), "{:?}", summary.unknown);
    let [loss] = &summary.losses[..] else {
        panic!("{:?}", summary.losses)
    };
    assert!(loss.source.starts_with("two: "), "{loss:?}");
    let clock = summary.machines[1].clock.unwrap();
    assert!(
        clock.offset_ns.abs_diff(7_000_000) <= clock.error_ns,
        "{clock:?}"
    );
}

#[test]
fn a_machine_with_a_truncated_recording_is_named() {
    let whole = recorded(0);
    // Without its last packet, the statistics.
    let mut packets = Vec::new();
    let mut reader = TraceReader::new(&whole[..]);
    while let Some(packet) = reader.next_packet().unwrap() {
        packets.push(packet.bytes.to_vec());
    }
    packets.pop();
    let cut = trace(&packets);
    let machines = [(machine(3, "one", 0), whole), (machine(4, "two", 0), cut)];
    let summary = summary(&merge(&machines));
    let [doubt] = &summary.unknown[..] else {
        panic!("{:?}", summary.unknown)
    };
    assert!(
        doubt.starts_with("two: the trace has no final statistics"),
        "{doubt}"
    );
}

#[test]
fn invalid_input_is_rejected_and_damage_is_reported() {
    let mut merger = MachineMerger::new(Vec::new(), [7; 16], &[]).unwrap();
    let refused = merger.add(&machine(3, "one", 0), &b"ELF, say"[..]);
    assert!(matches!(refused, Err(EditError::Read(_))), "{refused:?}");
    let mut cut = recorded(0);
    cut.truncate(cut.len() - 3);
    let taken = merger.add(&machine(4, "two", 0), &cut[..]).unwrap();
    assert!(!taken.damage.is_none(), "{taken:?}");
    assert_eq!(taken.packets, 7);
}
