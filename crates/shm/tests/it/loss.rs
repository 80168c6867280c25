//! Losses of writers that write no further packet.

use crate::common::World;
use ferretto_shm::{ArbiterOptions, ExhaustedPolicy};
use ferretto_wire::Fields;

/// TracePacket's field for lost packets, and the reason.
const DROPPED: (u32, u64) = (42, 257);

/// Returns the number of losses reported to the service, by a field of a packet or an abandoned
/// fragment.
fn reported_losses(world: &World) -> usize {
    let writers: std::collections::BTreeSet<u16> = world
        .stored
        .iter()
        .map(|stored| stored.header.writer_id)
        .collect();
    let packets = writers.into_iter().flat_map(|writer| world.packets(writer));
    let has_loss = |packet: &Vec<u8>| {
        let field = Fields::find(DROPPED.0, packet);
        field.and_then(|field| field.as_u64()) == Some(DROPPED.1)
    };
    let abandoned = |payload: &Vec<u8>| payload.windows(4).any(|w| w == [0xff, 0xff, 0xff, 0x7f]);
    let chunks = world.stored.iter();
    let marked = chunks.filter(|stored| abandoned(&stored.payload));
    packets.filter(has_loss).count() + marked.count()
}

/// Loses the last packet of a writer, with `left` bytes left in its last chunk.
fn lose_the_last(left: usize) -> World {
    let mut world = World::new(1, ArbiterOptions::default());
    let mut writer = world.writer();
    // One chunk of a page: 4096 bytes without the headers of page and chunk, and a length of four
    // bytes for each packet.
    let capacity = 4096 - 8 - 8;
    writer.write_packet(&vec![8; 1000]);
    let first = 1000 + 3 + 4;
    writer.write_packet(&vec![8; capacity - first - 4 - left]);
    writer.write_packet(&[8; 100]);
    assert!(writer.is_dropping(), "{left}");
    drop(writer);
    world.deliver();
    world
}

#[test]
fn the_loss_of_the_last_packet_is_reported_for_any_number_of_bytes_left() {
    for left in 0..12 {
        let mut world = lose_the_last(left);
        let marked = reported_losses(&world);
        assert_eq!(marked, usize::from(left >= 4), "{left}");
        // There is space again.
        assert!(world.arbiter.report_losses());
        world.deliver();
        assert_eq!(reported_losses(&world), 1, "{left}");
        assert!(world.arbiter.report_losses());
        world.deliver();
        assert_eq!(reported_losses(&world), 1, "once");
        assert_eq!(world.arbiter.writers(), 0);
    }
}

#[test]
fn a_loss_without_free_bytes_is_reported_later() {
    let mut world = World::new(1, ArbiterOptions::default());
    let mut first = world.arbiter.create_writer(7, ExhaustedPolicy::Drop);
    first.write_packet(&[8; 10]);
    // The first packet of the second writer finds no chunk.
    let mut second = world.arbiter.create_writer(7, ExhaustedPolicy::Drop);
    second.write_packet(&[8; 10]);
    assert!(second.is_dropping());
    assert!(!world.arbiter.report_losses(), "there is still no room");
    drop(first);
    world.deliver();
    assert_eq!(reported_losses(&world), 0);
    assert!(world.arbiter.report_losses());
    world.deliver();
    assert_eq!(reported_losses(&world), 1);
    drop(second);
}

#[test]
fn a_writer_that_continues_reports_its_loss_itself() {
    let mut world = World::new(1, ArbiterOptions::default());
    let mut first = world.writer();
    first.write_packet(&[8; 10]);
    let mut second = world.writer();
    second.write_packet(&[8; 10]);
    drop(first);
    world.deliver();
    second.flush(None);
    second.write_packet(&[8; 10]);
    assert!(!second.is_dropping());
    assert!(world.arbiter.report_losses());
    drop(second);
    world.deliver();
    assert_eq!(reported_losses(&world), 1);
}
