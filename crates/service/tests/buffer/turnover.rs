//! Writer and producer ids that are reused, and packets that take long to arrive.

use crate::support::*;

const MIB: u64 = 1 << 20;

#[test]
fn a_reused_writer_id_is_a_new_sequence() {
    let mut buffer = ring(MIB);
    for id in 0..3 {
        chunk(1, 1, id).packet(20, id as u8).copy_to(&mut buffer);
    }
    assert_eq!(seeds(&mut buffer), [(0, 0), (1, 0), (2, 0)]);
    buffer.writer_ended(1, 1);
    buffer.writer_began(1, 1);
    // Without the notification, these would be chunks that were read before.
    chunk(1, 1, 0).packet(20, 10).copy_to(&mut buffer);
    chunk(1, 1, 1).packet(20, 11).copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(10, 0), (11, 0)]);
    assert_eq!(buffer.stats().chunks_discarded, 0);
}

#[test]
fn a_new_writer_does_not_continue_the_packet_of_the_old_one() {
    let mut buffer = ring(MIB);
    chunk(1, 1, 0)
        .packet(20, 1)
        .packet(20, 2)
        .flags(LAST)
        .copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(1, 0)]);
    buffer.writer_ended(1, 1);
    buffer.writer_began(1, 1);
    chunk(1, 1, 1)
        .packet(20, 3)
        .packet(20, 4)
        .flags(FIRST)
        .copy_to(&mut buffer);
    let got = read_all(&mut buffer);
    assert_eq!(got.len(), 1, "{got:?}");
    assert_eq!((got[0].bytes[0], got[0].pieces), (4, 1));
    assert_ne!(got[0].loss, 0, "the old writer's unfinished packet is lost");
}

#[test]
fn packets_of_an_ended_writer_are_read_before_its_successor_s() {
    let mut buffer = ring(MIB);
    chunk(1, 1, 5).packet(20, 1).copy_to(&mut buffer);
    chunk(1, 1, 6)
        .packet(20, 2)
        .flags(PATCH | LAST)
        .copy_to(&mut buffer);
    buffer.writer_ended(1, 1);
    buffer.writer_began(1, 1);
    chunk(1, 1, 5).packet(20, 3).copy_to(&mut buffer);
    chunk(1, 1, 6).packet(20, 4).copy_to(&mut buffer);
    let got = seeds(&mut buffer);
    let order: Vec<u8> = got.iter().map(|(seed, _)| *seed).collect();
    assert_eq!(order, [1, 3, 4]);
    assert_eq!((got[0].1, got[2].1), (0, 0));
    assert_ne!(got[1].1, 0);
}

#[test]
fn chunks_that_arrive_after_the_end_belong_to_the_old_writer() {
    let mut buffer = ring(MIB);
    chunk(1, 1, 0)
        .packet(20, 1)
        .flags(LAST)
        .copy_to(&mut buffer);
    buffer.writer_ended(1, 1);
    chunk(1, 1, 1)
        .packet(20, 2)
        .flags(FIRST)
        .copy_to(&mut buffer);
    let got = read_all(&mut buffer);
    assert_eq!((got.len(), got[0].pieces, got[0].loss), (1, 2, 0));
}

#[test]
fn an_overwritten_old_writer_is_reported_by_its_successor() {
    let mut buffer = ring(4096);
    chunk(1, 1, 0).packet(1000, 1).copy_to(&mut buffer);
    buffer.writer_ended(1, 1);
    buffer.writer_began(1, 1);
    chunk(2, 1, 0).packet(1000, 7).copy_to(&mut buffer);
    chunk(2, 1, 1).packet(1000, 7).copy_to(&mut buffer);
    chunk(2, 1, 2).packet(1000, 7).copy_to(&mut buffer);
    chunk(1, 1, 0).packet(100, 2).copy_to(&mut buffer);
    let lost = seeds(&mut buffer).into_iter().find(|(seed, _)| *seed == 2);
    assert_eq!(lost, Some((2, 65)));
    assert_eq!(buffer.sequences(), 2, "the old one is forgotten");
}

#[test]
fn a_reused_producer_id_has_its_own_identity() {
    let mut buffer = ring(MIB);
    let one = chunk(1, 1, 7).packet(20, 1).uid(1000);
    one.copy_to(&mut buffer);
    buffer.producer_gone(1);
    chunk(1, 1, 0).packet(20, 2).uid(2000).copy_to(&mut buffer);
    let mut uids = Vec::new();
    while let Some(packet) = buffer.read_next() {
        uids.push((packet.identity.uid, packet.loss.bits()));
    }
    assert_eq!(uids, [(1000, 0), (2000, 0)]);
}

#[test]
fn restarting_a_writer_endlessly_uses_bounded_memory() {
    let mut buffer = ring(64 * 1024);
    for round in 0..200_000u32 {
        chunk(1, 1, round).bytes(&[1]).copy_to(&mut buffer);
        buffer.writer_ended(1, 1);
        buffer.writer_began(1, 1);
    }
    assert!(buffer.memory_usage() < 2 * MIB, "{}", buffer.memory_usage());
}

/// Returns a piece of a packet that fills a chunk.
fn piece(id: u32, last: u32) -> Make {
    let flags = u8::from(id > 0) * FIRST + u8::from(id < last) * LAST;
    chunk(1, 1, id).packet(4000, id as u8).flags(flags)
}

#[test]
fn a_packet_of_64_megabytes_is_reassembled_in_linear_time() {
    const CHUNKS: u32 = 16_384;
    let mut buffer = ring(128 * MIB);
    for id in 0..CHUNKS {
        piece(id, CHUNKS - 1).copy_to(&mut buffer);
        if id + 1 < CHUNKS {
            assert!(buffer.read_next().is_none());
        }
    }
    let packet = buffer.read_next().expect("the packet");
    assert_eq!(packet.fragments().len(), CHUNKS as usize);
    assert!(packet.len() > 60_000_000);
    let ends = packet.fragments().map(|piece| piece[0]);
    assert!(ends.eq((0..CHUNKS).map(|id| id as u8)));
    let steps = buffer.pieces_examined();
    assert!(steps <= 4 * u64::from(CHUNKS), "{steps} steps");
}

#[test]
fn a_long_packet_whose_middle_is_patched_away_is_lost() {
    let mut buffer = ring(MIB);
    for id in 0..4 {
        piece(id, 5).copy_to(&mut buffer);
        assert!(buffer.read_next().is_none());
    }
    // A size of 3: the chunk now has a piece and more after it.
    assert!(buffer.try_patch(1, 1, 2, &[patch(0, [3, 0, 0, 0])], false));
    let _ = read_all(&mut buffer);
    for id in 4..6 {
        piece(id, 5).copy_to(&mut buffer);
    }
    chunk(1, 1, 6).packet(20, 77).copy_to(&mut buffer);
    let got = seeds(&mut buffer);
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].0, 77);
    assert_ne!(got[0].1, 0);
}
