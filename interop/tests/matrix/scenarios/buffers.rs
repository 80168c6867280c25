//! Buffers that are too small for the recorded data.

use ferretto_interop::config::config;
use ferretto_interop::trace::{self, EventKind};
use ferretto_interop::wire::Message;
use ferretto_interop::{Cast, World};
use ferretto_proto::TraceConfig;
use ferretto_proto::fields::trace_packet;
use ferretto_proto::fields::trace_stats::buffer_stats;
use ferretto_proto::trace_config::buffer_config::FillPolicy;

use crate::PROGRAMS;

/// Ten times the size of the buffer, in packets of 100 bytes.
const NUMBERS: u64 = 6400;

fn small(policy: FillPolicy, size_kb: u32) -> TraceConfig {
    let mut config = config(size_kb);
    config.buffers[0].fill_policy = Some(policy);
    config
}

fn overfill(cast: Cast, policy: FillPolicy) -> Vec<Message> {
    let world = World::new(cast, PROGRAMS);
    let mut producer = world.producer();
    let mut consumer = world.consumer();
    world.start_session(&mut consumer, &small(policy, 64));
    producer.run("await-start 1");
    producer.run(&format!("numbers 0 {NUMBERS}"));
    trace::decode(&world.stop_and_read(&mut consumer))
}

pub(crate) fn a_ring_keeps_the_newest(cast: Cast) {
    let packets = overfill(cast, FillPolicy::RING_BUFFER);
    let numbers = trace::numbers(&packets);
    let kept = numbers.len() as u64;
    assert!(numbers.iter().copied().eq(NUMBERS - kept..NUMBERS));
    assert!((200..NUMBERS).contains(&kept), "{kept}");
    let first = trace::with(&packets, trace_packet::FOR_TESTING)[0];
    assert!(first.has(trace_packet::PREVIOUS_PACKET_DROPPED));
    let stats = trace::stats(&packets);
    assert!(trace::in_buffers(&stats, buffer_stats::CHUNKS_OVERWRITTEN) > 0);
    assert!(trace::in_buffers(&stats, buffer_stats::BYTES_OVERWRITTEN) > 0);
    assert!(trace::in_buffers(&stats, buffer_stats::WRITE_WRAP_COUNT) >= 9);
    assert_eq!(
        trace::in_buffers(&stats, buffer_stats::TRACE_WRITER_PACKET_LOSS),
        0
    );
}

pub(crate) fn a_full_buffer_keeps_the_oldest(cast: Cast) {
    let packets = overfill(cast, FillPolicy::DISCARD);
    let numbers = trace::numbers(&packets);
    let kept = numbers.len() as u64;
    assert!(numbers.iter().copied().eq(0..kept));
    assert!((200..NUMBERS).contains(&kept), "{kept}");
    let stats = trace::stats(&packets);
    assert!(trace::in_buffers(&stats, buffer_stats::CHUNKS_DISCARDED) > 0);
    assert_eq!(
        trace::in_buffers(&stats, buffer_stats::CHUNKS_OVERWRITTEN),
        0
    );
}

pub(crate) fn track_events_left_in_a_ring_can_be_read(cast: Cast) {
    let world = World::new(cast, PROGRAMS);
    let mut producer = world.producer();
    let mut consumer = world.consumer();
    world.start_session(&mut consumer, &small(FillPolicy::RING_BUFFER, 512));
    producer.run("await-start 1");
    producer.run("slices 30000");
    let packets = trace::decode(&world.stop_and_read(&mut consumer));
    let stats = trace::stats(&packets);
    assert!(trace::in_buffers(&stats, buffer_stats::WRITE_WRAP_COUNT) > 0);
    let events = trace::track_events(&packets);
    let instants = events
        .iter()
        .filter(|event| event.kind == EventKind::Instant);
    let named = instants.clone().filter(|event| event.name == "tick");
    let (all, named) = (instants.count(), named.count());
    // Events before the sequence repeated its interned data have no names.
    assert!(all > 1000 && named * 4 >= all * 3, "{named} of {all}");
}
