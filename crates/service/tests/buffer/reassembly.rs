//! The packets that are read, their order, and the reports of losses.

use crate::support::*;
use ferretto_service::buffer::Policy;

#[test]
fn tracebuf_009_chunks_come_out_in_order_of_their_ids() {
    for base in [0, 0xffff_ffff, 0xffff_fffe] {
        let mut buffer = ring(4096);
        for step in [0, 2, 1] {
            chunk(1, 1, base_plus(base, step))
                .packet(20, step as u8)
                .copy_to(&mut buffer);
        }
        assert_eq!(seeds(&mut buffer), [(0, 0), (1, 0), (2, 0)]);
        assert_eq!(buffer.stats().chunks_committed_out_of_order, 1);
    }
}

fn base_plus(base: u32, step: u32) -> u32 {
    base.wrapping_add(step)
}

#[test]
fn tracebuf_010_a_packet_over_many_chunks_is_one_slice_each() {
    for base in [0, u32::MAX - 4] {
        let mut buffer = ring(65536);
        for step in 0..12u32 {
            let made = chunk(1, 1, base.wrapping_add(step));
            let made = match step {
                0 => made.packet(20, 1).packet(40, 100).flags(LAST),
                4 | 7 => made,
                11 => made.packet(40, 111).packet(20, 2).flags(FIRST),
                _ => made.packet(40, 100 + step as u8).flags(FIRST | LAST),
            };
            made.copy_to(&mut buffer);
        }
        let got = read_all(&mut buffer);
        assert_eq!(got.len(), 3);
        assert_eq!(got[1].pieces, 10);
        let expected: Vec<u8> = (0..12u8)
            .filter(|step| ![4, 7].contains(step))
            .flat_map(|step| body(40, 100 + step))
            .collect();
        assert_eq!(got[1].bytes, expected);
        assert!(got.iter().all(|got| got.loss == 0));
        assert_eq!(buffer.stats().readaheads_succeeded, 1);
    }
}

#[test]
fn tracebuf_011_a_continuation_without_beginning_is_skipped() {
    let mut buffer = ring(4096);
    chunk(1, 1, 0)
        .packet(20, 1)
        .packet(20, 2)
        .packet(20, 3)
        .flags(FIRST)
        .copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(2, 9), (3, 0)]);
}

#[test]
fn tracebuf_012_a_missing_continuation_holds_up_only_its_writer() {
    let mut buffer = ring(4096);
    chunk(1, 1, 0)
        .packet(20, 1)
        .flags(LAST)
        .copy_to(&mut buffer);
    chunk(1, 2, 0).packet(20, 2).copy_to(&mut buffer);
    chunk(2, 1, 0).packet(20, 3).copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(2, 0), (3, 0)]);
    assert_eq!(seeds(&mut buffer), []);
    chunk(1, 1, 1)
        .packet(20, 4)
        .flags(FIRST)
        .copy_to(&mut buffer);
    let got = read_all(&mut buffer);
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].bytes, [body(20, 1), body(20, 4)].concat());
    assert_eq!(got[0].loss, 0);
}

#[test]
fn tracebuf_013_a_packet_the_writer_gave_up_is_dropped() {
    let mut buffer = ring(4096);
    chunk(1, 1, 0)
        .packet(20, 1)
        .packet(20, 2)
        .flags(LAST)
        .copy_to(&mut buffer);
    chunk(1, 1, 1)
        .raw(&ABORT)
        .raw(b"anything")
        .count(1)
        .flags(FIRST)
        .copy_to(&mut buffer);
    chunk(1, 1, 2).packet(20, 3).copy_to(&mut buffer);
    let got = seeds(&mut buffer);
    assert_eq!(got.iter().map(|got| got.0).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(got[0].1, 0);
    assert_ne!(got[1].1, 0);
    let stats = buffer.stats();
    assert_eq!(stats.trace_writer_packet_loss, 1);
    assert_eq!(stats.abi_violations, 0);
}

/// Packets before it in the same chunk are complete: no loss may be reported before them.
#[test]
fn an_aborted_packet_is_reported_with_the_next_one() {
    let mut buffer = ring(4096);
    chunk(1, 1, 0)
        .packet(20, 1)
        .packet(20, 2)
        .raw(&ABORT)
        .count(3)
        .copy_to(&mut buffer);
    chunk(1, 1, 1).packet(20, 3).copy_to(&mut buffer);
    let losses: Vec<_> = seeds(&mut buffer)
        .iter()
        .map(|got| (got.0, got.1 != 0))
        .collect();
    assert_eq!(losses, [(1, false), (2, false), (3, true)]);
}

#[test]
fn tracebuf_014_empty_fragments_are_nothing() {
    let mut buffer = ring(4096);
    chunk(1, 1, 0)
        .packet(20, 1)
        .raw(&[0, 0x80, 0x80, 0x80, 0])
        .count(3)
        .copy_to(&mut buffer);
    chunk(1, 1, 1)
        .raw(&[0])
        .count(1)
        .packet(20, 2)
        .copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(1, 0), (2, 0)]);
    assert_eq!(buffer.stats().abi_violations, 0);
}

#[test]
fn tracebuf_015_a_gap_of_ids_is_told_and_does_not_stall() {
    let mut buffer = ring(4096);
    chunk(1, 1, 1).packet(20, 1).copy_to(&mut buffer);
    chunk(1, 1, 3)
        .packet(20, 3)
        .packet(20, 4)
        .copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(1, 0), (3, 3), (4, 0)]);
}

#[test]
fn tracebuf_015_a_gap_is_told_once_however_reading_is_cut() {
    let mut buffer = ring(4096);
    chunk(1, 1, 1).packet(20, 1).copy_to(&mut buffer);
    chunk(1, 1, 3)
        .packet(20, 2)
        .packet(20, 3)
        .packet(20, 4)
        .copy_to(&mut buffer);
    let mut losses = Vec::new();
    while let Some(got) = read_one(&mut buffer) {
        losses.push(got.loss);
        chunk(9, 9, losses.len() as u32).copy_to(&mut buffer);
    }
    assert_eq!(losses, [0, 3, 0, 0]);
}

#[test]
fn tracebuf_015_a_chunk_that_is_late_but_not_too_late_is_no_gap() {
    let mut buffer = ring(4096);
    chunk(1, 1, 0).packet(20, 1).copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(1, 0)]);
    chunk(1, 1, 2)
        .packet(20, 3)
        .flags(LAST)
        .copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), []);
    chunk(1, 1, 1).packet(20, 2).copy_to(&mut buffer);
    chunk(1, 1, 3)
        .packet(20, 4)
        .flags(FIRST)
        .copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(2, 0), (3, 0)]);
}

#[test]
fn tracebuf_015_a_chunk_that_is_too_late_does_not_come_out_of_order() {
    let mut buffer = ring(4096);
    chunk(1, 1, 0).packet(20, 1).copy_to(&mut buffer);
    chunk(1, 1, 2)
        .packet(20, 3)
        .packet(20, 4)
        .copy_to(&mut buffer);
    read_one(&mut buffer);
    assert_eq!(read_one(&mut buffer).map(|got| got.bytes[0]), Some(3));
    chunk(1, 1, 1).packet(20, 2).copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(4, 0)]);
    assert_eq!(buffer.stats().chunks_discarded, 1);
}

#[test]
fn tracebuf_016_gap_inside_a_packet() {
    let mut buffer = ring(4096);
    chunk(1, 1, 0)
        .packet(20, 1)
        .flags(LAST)
        .copy_to(&mut buffer);
    chunk(1, 1, 2)
        .packet(20, 2)
        .flags(FIRST)
        .copy_to(&mut buffer);
    chunk(1, 1, 3).packet(20, 3).copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(3, 1 | 2 | 8 | 16)]);
}

#[test]
fn tracebuf_017_broken_chain_and_orphan() {
    let mut buffer = ring(4096);
    chunk(1, 1, 0)
        .packet(20, 1)
        .flags(LAST)
        .copy_to(&mut buffer);
    chunk(1, 1, 1).packet(20, 2).copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(2, 33)]);

    let mut buffer = ring(4096);
    chunk(1, 1, 0)
        .packet(20, 1)
        .flags(FIRST)
        .copy_to(&mut buffer);
    chunk(1, 1, 1).packet(20, 2).copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(2, 9)]);
}

#[test]
fn tracebuf_018_overwriting_is_told_once() {
    let mut buffer = ring(4096);
    for id in 0..6 {
        chunk(1, 1, id).packet(1000, id as u8).copy_to(&mut buffer);
    }
    assert_eq!(seeds(&mut buffer), [(2, 65), (3, 0), (4, 0), (5, 0)]);
    assert_eq!(buffer.stats().chunks_overwritten, 2);
}

#[test]
fn tracebuf_019_being_lapped_by_others_is_no_loss() {
    for (next, lossy) in [(1, false), (2, true)] {
        let mut buffer = ring(4096);
        chunk(1, 1, 0).packet(20, 1).copy_to(&mut buffer);
        assert_eq!(read_all(&mut buffer).len(), 1);
        for id in 0..40 {
            chunk(2, 1, id).packet(500, 9).copy_to(&mut buffer);
        }
        chunk(1, 1, next).packet(20, 2).copy_to(&mut buffer);
        let got = read_all(&mut buffer);
        let last = got.last().expect("a packet");
        assert_eq!((last.producer, last.bytes[0]), (1, 2));
        assert_eq!(last.loss != 0, lossy);
    }
}

#[test]
fn tracebuf_020_v1_tells_a_loss_as_one_and_at_the_start() {
    let mut buffer = v1(4096, Policy::Ring);
    chunk(1, 1, 0)
        .packet(20, 1)
        .packet(20, 2)
        .copy_to(&mut buffer);
    chunk(1, 2, 0).packet(20, 3).copy_to(&mut buffer);
    chunk(1, 1, 1).packet(20, 4).copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(1, 1), (2, 0), (4, 0), (3, 1)]);
    chunk(1, 1, 5).packet(20, 5).copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(5, 1)]);
}

#[test]
fn the_identity_of_the_producer_comes_with_the_packet() {
    let mut buffer = ring(4096);
    chunk(1, 1, 0)
        .packet(20, 1)
        .flags(LAST)
        .uid(11)
        .copy_to(&mut buffer);
    chunk(2, 1, 0).packet(20, 2).uid(22).copy_to(&mut buffer);
    chunk(1, 1, 1)
        .packet(20, 3)
        .flags(FIRST)
        .uid(11)
        .copy_to(&mut buffer);
    let mut uids = Vec::new();
    while let Some(packet) = buffer.read_next() {
        uids.push((packet.producer, packet.identity.uid, packet.identity.pid));
    }
    assert_eq!(uids, [(1, 11, Some(1)), (2, 22, Some(2))]);
}
