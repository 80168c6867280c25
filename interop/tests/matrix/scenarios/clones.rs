//! Clones of running sessions.

use ferretto_interop::config::config;
use ferretto_interop::trace;
use ferretto_interop::wire::Message;
use ferretto_interop::{Cast, Peer, Side, World};
use ferretto_proto::TraceConfig;
use ferretto_proto::fields::{trace_packet, trace_uuid};

use crate::PROGRAMS;

fn named() -> TraceConfig {
    TraceConfig {
        unique_session_name: Some(b"original".to_vec()),
        trace_uuid_msb: Some(0x1111_2222_3333_4444),
        trace_uuid_lsb: Some(0x5555_6666_7777_0888),
        ..config(4096)
    }
}

/// Returns the halves of the UUID in a trace, low and high.
fn uuid(packets: &[Message]) -> (u64, u64) {
    let found = trace::with(packets, trace_packet::TRACE_UUID);
    assert_eq!(found.len(), 1);
    let uuid = found[0].message(trace_packet::TRACE_UUID);
    (uuid.number(trace_uuid::LSB), uuid.number(trace_uuid::MSB))
}

/// Returns the halves of the UUID in the answer to a clone, low and high.
fn answered(answer: &str) -> (u64, u64) {
    let mut halves = answer.split(' ').map(|half| match half.parse::<i64>() {
        Ok(half) => half as u64,
        Err(_) => half.parse().expect("a number"),
    });
    (halves.next().unwrap(), halves.next().unwrap())
}

fn clone(world: &World, session: &str, numbers: u64) -> (Peer, (u64, u64)) {
    let mut copy = world.full_consumer();
    let answer = copy.run(&format!("clone {session}"));
    let packets = trace::decode(&world.read(&mut copy));
    trace::assert_nothing_lost(&packets);
    assert!(trace::numbers(&packets).into_iter().eq(0..numbers));
    assert_eq!(uuid(&packets), answered(&answer));
    (copy, answered(&answer))
}

pub(crate) fn a_session_is_cloned_by_name_and_number(cast: Cast) {
    let world = World::new(cast, PROGRAMS);
    let mut producer = world.producer();
    let mut consumer = world.full_consumer();
    consumer.run(&format!("start {}", world.config_file(&named())));
    producer.run("await-start 1");
    producer.run("numbers 0 10");
    let (mut first, one) = clone(&world, "original", 10);
    producer.run("numbers 10 10");
    let sessions = first.run("sessions");
    assert!(sessions.contains(":CLONED_READ_ONLY:"), "{sessions}");
    let original = sessions
        .split(' ')
        .find(|s| s.ends_with(":STARTED:original"));
    let number = original.expect("the original is listed").split(':').next();
    let (_second, two) = clone(&world, number.unwrap_or_default(), 20);
    let packets = trace::decode(&world.stop_and_read(&mut consumer));
    trace::assert_nothing_lost(&packets);
    assert!(trace::numbers(&packets).into_iter().eq(0..20));

    // A clone has the same lower half and its own upper half.
    let all = [one, two, uuid(&packets)];
    assert_eq!(
        uuid(&packets),
        (0x5555_6666_7777_0888, 0x1111_2222_3333_4444)
    );
    assert!(all.iter().all(|uuid| uuid.0 == all[2].0));
    assert!(one.1 != two.1 && one.1 != all[2].1 && two.1 != all[2].1);
}

pub(crate) fn a_long_recording_is_cloned_into_a_file(cast: Cast) {
    let world = World::new(cast, PROGRAMS);
    let (file, copy_file) = (world.file("long.pftrace"), world.file("copy.pftrace"));
    let mut producer = world.producer();
    let mut consumer = world.full_consumer();
    let config = world.config_file(&TraceConfig {
        write_into_file: Some(true),
        file_write_period_ms: Some(100),
        ..named()
    });
    consumer.run(&format!("start {config} {}", file.display()));
    producer.run("await-start 1");
    producer.run("numbers 0 10");
    let _ = world.await_in_file(&mut consumer, &file, |packets| {
        trace::numbers(packets).len() == 10
    });
    // The first half is in the file; this may still be in the buffer.
    producer.run("numbers 10 10");
    let mut copy = world.full_consumer();
    let answer = copy.run(&format!("clone original {}", copy_file.display()));
    assert!(answer.ends_with(" file"), "{answer}");
    let copied = trace::decode(&std::fs::read(copy_file).unwrap());
    let copied = trace::numbers(&copied);
    // The clone lacks packets that upstream writes to the file after it copied the file and before
    // it clones the buffers.
    let may_miss = cast.service == Side::Official && copied.len() == 10;
    let expected = if may_miss { 10 } else { 20 };
    assert_eq!(copied, (0..expected).collect::<Vec<_>>());
    producer.run("numbers 20 10");
    consumer.run("stop");
    let packets = trace::decode(&std::fs::read(file).unwrap());
    trace::assert_nothing_lost(&packets);
    assert!(trace::numbers(&packets).into_iter().eq(0..30));
}
