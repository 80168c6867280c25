//! Clones of sessions that write into a file.

use std::collections::BTreeMap;

use ferretto_ipc::port::consumer::Request;
use ferretto_proto::fields::trace_packet as f;
use ferretto_proto::trace_stats::FinalFlushOutcome;

use crate::cloning::{ask, by_name, clone, cloned, named, outcome, record, refusal, refused};
use crate::world::{Behaviour, ConfigBuilder, NO_SPACE, Packet, WriteFault, split_file, texts};

fn into_file() -> ConfigBuilder {
    named("s").with(|c| c.write_into_file = Some(true))
}

#[test]
fn service_074_file_and_buffers_without_a_gap() {
    let mut r = record(into_file());
    let other = r.world.simple_producer("other");
    r.world.register(other, "p");
    let mut second = r.world.writer(other);
    r.write("one");
    r.world.run_for(5_000);
    r.world.write(other, &mut second, &["first of the other"]);
    r.write("two");
    let reader = r.world.consumer();
    let id = r.world.call(reader, Request::CloneSession(by_name("s")));
    assert_eq!(
        refused(&r.world, reader, id),
        "Failed to clone 'write_into_file' session: a file descriptor is required to copy existing \
         file"
    );
    let (reader, reply) = clone(&mut r.world, by_name("s"));
    assert_eq!(reply.was_write_into_file, Some(true));
    let files: Vec<_> = r.world.files.values().collect();
    let (original, copy) = (files[0], files[1]);
    assert!(copy.closed && !original.closed);
    assert!(copy.bytes.starts_with(&original.bytes));
    let packets = split_file(&copy.bytes);
    assert_eq!(texts(&packets), ["one", "two", "first of the other"]);
    let sequences: Vec<_> = packets
        .iter()
        .filter(|p| p.is_data())
        .map(Packet::sequence)
        .collect();
    assert_eq!(sequences[0], sequences[1]);
    assert_ne!(sequences[0], sequences[2]);
    assert_eq!(
        outcome(&packets),
        Some(FinalFlushOutcome::FINAL_FLUSH_SUCCEEDED)
    );
    let left = r.world.read(reader);
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].event(), Some(4));

    r.world.run_for(5_000);
    r.world.disable(r.consumer);
    let original = r.world.files.values().next().unwrap();
    assert_eq!(
        texts(&split_file(&original.bytes)),
        ["one", "two", "first of the other"]
    );
}

#[test]
fn data_written_to_the_file_while_the_clone_waits_is_in_the_clone_once() {
    let mut r = record(into_file().with(|c| c.flush_timeout_ms = Some(5000)));
    let behaviour = Behaviour {
        confirms_flush: false,
        ..Default::default()
    };
    r.world.producers.get_mut(&r.producer).unwrap().behaviour = behaviour;
    r.write("one");
    let reader = r.world.consumer();
    r.world.run_for(2_500);
    let id = ask(&mut r.world, reader, by_name("s"));
    r.world.run_for(2_500);
    r.write("two");
    r.world.run_for(2_500);
    assert_eq!(cloned(&r.world, reader, id).success, Some(true));
    let copy = r.world.files.values().nth(1).unwrap();
    assert_eq!(texts(&split_file(&copy.bytes)), ["one", "two"]);
}

#[test]
fn the_end_of_a_session_completes_the_clone_of_its_file() {
    let mut r = record(into_file());
    r.world
        .producers
        .get_mut(&r.producer)
        .unwrap()
        .behaviour
        .confirms_flush = false;
    r.write("one");
    let reader = r.world.consumer();
    let id = ask(&mut r.world, reader, by_name("s"));
    r.world.disable(r.consumer);
    assert_eq!(cloned(&r.world, reader, id).was_write_into_file, Some(true));
    for file in r.world.files.values() {
        assert!(file.closed);
        assert_eq!(texts(&split_file(&file.bytes)), ["one"]);
    }
}

#[test]
fn a_file_that_cannot_be_copied_fails_the_clone() {
    let mut r = record(into_file());
    r.write("one");
    r.world.copies = false;
    let reader = r.world.consumer();
    assert_eq!(
        refusal(&mut r.world, reader, by_name("s")),
        "Failed to clone 'write_into_file' session: failed to copy existing file: Illegal seek \
         (os error 29)"
    );
    assert_eq!(r.world.sessions(), 1);
    // The disk is full when the buffers are appended.
    r.world.copies = true;
    r.world.disk = 10;
    assert!(
        refusal(&mut r.world, reader, by_name("s")).starts_with("Failed to write the trace file: ")
    );
    r.world.disk = usize::MAX;
    assert_eq!(r.world.sessions(), 1);
    r.world.disable(r.consumer);
    assert!(r.world.files.values().all(|file| file.closed));
    let original = r.world.files.values().next().unwrap();
    assert_eq!(texts(&split_file(&original.bytes)), ["one"]);
    // Its file is closed, so it can be cloned like any other session.
    let (_, reply) = clone(&mut r.world, by_name("s"));
    assert_eq!(reply.was_write_into_file, Some(false));
}

/// Regression test for a bug found by simulation: the clone lacked the packets that the failed
/// write had taken out of the buffers.
#[test]
fn a_failed_file_write_fails_the_waiting_clone() {
    let mut r = record(into_file());
    let behaviour = &mut r.world.producers.get_mut(&r.producer).unwrap().behaviour;
    behaviour.confirms_flush = false;
    r.write("one");
    let reader = r.world.consumer();
    let id = ask(&mut r.world, reader, by_name("s"));
    r.world.write_faults.push_back(WriteFault::Error(NO_SPACE));
    r.world.disable(r.consumer);
    assert_eq!(
        refused(&r.world, reader, id),
        "Failed to write the trace file: No space left on device (os error 28)"
    );
    assert_eq!(r.world.files.len(), 1);
    // The remaining content can still be cloned, as that of any ended session.
    let (_, reply) = clone(&mut r.world, by_name("s"));
    assert_eq!(reply.was_write_into_file, Some(false));
}

#[test]
fn a_clone_of_a_disconnected_requester_is_removed() {
    let mut r = record(into_file());
    r.write("one");
    let reader = r.world.consumer();
    r.world.slow = true;
    ask(&mut r.world, reader, by_name("s"));
    assert_eq!(r.world.sessions(), 2);
    r.world.disconnect(reader);
    r.world.slow = false;
    r.world.deliver_late();
    assert_eq!(r.world.sessions(), 1);
    assert!(r.world.files.values().nth(1).unwrap().closed);
}

/// Returns the readings of each clock, snapshot by snapshot, with their index in the trace.
fn snapshots(packets: &[Packet]) -> Vec<(usize, BTreeMap<u64, u64>)> {
    let reading = |clock: ferretto_wire::Field<'_>| {
        let clock = Packet(clock.as_bytes()?.to_vec());
        Some((clock.int(1)?, clock.int(2)?))
    };
    let read = |snapshot: &[u8]| {
        let fields = ferretto_wire::Fields::new(snapshot).map(|field| field.unwrap());
        fields
            .filter(|f| f.number == 1)
            .filter_map(reading)
            .collect()
    };
    let packets = packets.iter().enumerate();
    packets
        .filter_map(|(at, packet)| Some((at, read(packet.bytes(f::CLOCK_SNAPSHOT)?))))
        .collect()
}

/// Returns `CLOCK_BOOTTIME` at this `CLOCK_MONOTONIC` as readers compute it: from the last snapshot
/// before it.
fn boottime(packets: &[Packet], monotonic: u64) -> u64 {
    let (id_of_boottime, id_of_monotonic) = (6, 3);
    let all = snapshots(packets);
    let before = all.iter().map(|(_, clocks)| clocks);
    let before = before.filter(|clocks| clocks[&id_of_monotonic] <= monotonic);
    let last = before
        .max_by_key(|clocks| clocks[&id_of_monotonic])
        .unwrap();
    last[&id_of_boottime] + (monotonic - last[&id_of_monotonic])
}

#[test]
fn clocks_in_the_clone_of_a_file_never_go_backwards() {
    let mut r = record(into_file().with(|c| c.file_write_period_ms = Some(500)));
    let mut written = Vec::new();
    for round in 0..16 {
        r.world.run_for(500);
        // A suspend makes each snapshot significant.
        r.world.now.boottime += 20_000_000;
        r.world.now.realtime += 20_000_000;
        r.world.now.realtime_coarse += 20_000_000;
        r.write(&round.to_string());
        written.push(r.world.now.monotonic);
        if round % 4 == 3 {
            r.world.flush(r.consumer, 1_000);
        }
    }
    let mut copies = Vec::new();
    for _ in 0..3 {
        let (reader, _) = clone(&mut r.world, by_name("s"));
        copies.push(r.world.files.len() - 1);
        r.world.free(reader);
        r.world.run_for(10_000);
    }
    r.world.disable(r.consumer);
    let files: Vec<_> = r.world.files.values().collect();
    let original = split_file(&files[0].bytes);
    assert!(snapshots(&original).len() > 2);
    for file in std::iter::once(0).chain(copies) {
        let packets = split_file(&files[file].bytes);
        let texts = texts(&packets);
        assert_eq!(texts, (0..16).map(|n| n.to_string()).collect::<Vec<_>>());
        let mut last = BTreeMap::new();
        for (at, clocks) in snapshots(&packets) {
            for (clock, time) in clocks {
                let before = last.insert(clock, time).unwrap_or(0);
                assert!(
                    before <= time,
                    "file {file}, packet {at}, clock {clock}: {before} > {time}"
                );
            }
        }
        for monotonic in &written {
            assert_eq!(
                boottime(&packets, *monotonic),
                boottime(&original, *monotonic)
            );
        }
    }
}
