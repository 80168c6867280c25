//! Full shared memory, because the service does not read it.

use std::time::Duration;

use ferretto_interop::config::config;
use ferretto_interop::trace;
use ferretto_interop::wire::Message;
use ferretto_interop::{Cast, Side, World};
use ferretto_proto::data_source_config::BufferExhaustedPolicy;
use ferretto_proto::fields::trace_packet;
use ferretto_proto::fields::trace_stats::buffer_stats;

use crate::PROGRAMS;

/// The number of packets of 100 bytes: several times the size of the shared memory.
const TOO_MANY: u64 = 20_000;

pub(crate) fn a_writer_can_wait_for_room(cast: Cast) {
    let world = World::new(cast, PROGRAMS);
    let mut producer = world.producer();
    let mut consumer = world.consumer();
    world.start_session(&mut consumer, &config(65536));
    producer.run("await-start 1");
    world.service().pause();
    producer.send(&format!("fill 0 {TOO_MANY}"));
    // Time to fill the memory. If this takes longer, the test checks less.
    std::thread::sleep(Duration::from_millis(200));
    producer.assert_busy();
    world.service().resume();
    producer.answer();
    producer.run(&format!("numbers {TOO_MANY} 10"));
    let packets = trace::decode(&world.stop_and_read(&mut consumer));
    trace::assert_nothing_lost(&packets);
    assert!(trace::numbers(&packets).into_iter().eq(0..TOO_MANY + 10));
}

pub(crate) fn a_writer_can_continue_in_full_buffers(cast: Cast) {
    let world = World::new(cast, PROGRAMS);
    let mut producer = world.producer();
    let mut consumer = world.consumer();
    let mut config = config(65536);
    for source in &mut config.data_sources {
        let source = source.config.get_or_insert_default();
        source.buffer_exhausted_policy = Some(BufferExhaustedPolicy::BUFFER_EXHAUSTED_DROP);
    }
    world.start_session(&mut consumer, &config);
    producer.run("await-start 1");
    world.service().pause();
    producer.run(&format!("fill 0 {TOO_MANY}"));
    world.service().resume();
    // After the answer there is room, even if this packet was dropped.
    producer.run(&format!("numbers {TOO_MANY} 1"));
    let end = TOO_MANY + 1;
    producer.run(&format!("numbers {end} 10"));
    let packets = trace::decode(&world.stop_and_read(&mut consumer));
    let numbers = trace::numbers(&packets);
    assert!(numbers.is_sorted() && numbers[0] == 0);
    assert!(numbers.len() < TOO_MANY as usize, "nothing was dropped");
    assert!(numbers.ends_with(&(end..end + 10).collect::<Vec<_>>()));
    let stats = trace::stats(&packets);
    assert!(trace::in_buffers(&stats, buffer_stats::TRACE_WRITER_PACKET_LOSS) > 0);
    assert_reported(cast, &packets);
}

/// Checks that packets report the loss before them. Upstream's service reports it with the packet
/// that is read next, independent of the position of the loss.
fn assert_reported(cast: Cast, packets: &[Message]) {
    let packets = trace::with(packets, trace_packet::FOR_TESTING);
    let owned: Vec<Message> = packets.iter().map(|packet| (*packet).clone()).collect();
    let numbers = trace::numbers(&owned);
    let is_reported = |index: usize| packets[index].has(trace_packet::PREVIOUS_PACKET_DROPPED);
    let rest = 1..numbers.len();
    match cast.service {
        Side::Ours => rest.for_each(|index| {
            let is_gap = numbers[index] != numbers[index - 1] + 1;
            assert_eq!(is_reported(index), is_gap, "packet {}", numbers[index]);
        }),
        Side::Official => assert!(rest.into_iter().any(is_reported)),
    }
}
