//! The order in which writers are read: by producer and writer id with [`Semantics::V1`],
//! approximately in the order of writing with [`Semantics::V2`].

use std::collections::BTreeMap;

use ferretto_service::buffer::{Policy, TraceBuffer};
use proptest::prelude::*;

use crate::support::*;

/// Returns the writers and first bytes of the packets.
fn order(buffer: &mut TraceBuffer) -> Vec<((u16, u16), u8)> {
    let packets = read_all(buffer).into_iter();
    packets
        .map(|got| ((got.producer, got.writer), got.bytes[0]))
        .collect()
}

fn seeds_in_order(buffer: &mut TraceBuffer) -> Vec<u8> {
    order(buffer).into_iter().map(|(_, seed)| seed).collect()
}

/// Writes chunks of three writers of two producers in turn.
fn take_turns(buffer: &mut TraceBuffer) {
    let writers = [(2, 1), (1, 7), (1, 3)];
    for round in 0..2 {
        for (index, (producer, writer)) in (0..).zip(writers) {
            chunk(producer, writer, round)
                .packet(20, round as u8 * 10 + index)
                .packet(20, round as u8 * 10 + index + 100)
                .copy_to(buffer);
        }
    }
}

#[test]
fn v1_reads_by_producer_then_by_writer() {
    let mut buffer = v1(65_536, Policy::Ring);
    take_turns(&mut buffer);
    let expected = [
        ((1, 3), [2, 102, 12, 112]),
        ((1, 7), [1, 101, 11, 111]),
        ((2, 1), [0, 100, 10, 110]),
    ];
    let expected: Vec<_> = expected
        .into_iter()
        .flat_map(|(key, seeds)| seeds.map(|seed| (key, seed)))
        .collect();
    assert_eq!(order(&mut buffer), expected);
}

#[test]
fn v2_reads_in_the_order_of_writing() {
    let mut buffer = ring(65_536);
    take_turns(&mut buffer);
    let expected = [0, 100, 1, 101, 2, 102, 10, 110, 11, 111, 12, 112];
    assert_eq!(seeds_in_order(&mut buffer), expected);
}

#[test]
fn each_pass_begins_with_the_first_writer_that_has_new_packets() {
    let mut buffer = v1(65_536, Policy::Ring);
    take_turns(&mut buffer);
    for _ in 0..5 {
        read_one(&mut buffer).expect("a packet");
    }
    // Within the packets of (1, 7).
    chunk(1, 3, 2).packet(20, 50).copy_to(&mut buffer);
    chunk(3, 1, 0).packet(20, 60).copy_to(&mut buffer);
    chunk(1, 5, 0).packet(20, 70).copy_to(&mut buffer);
    let expected = [50, 70, 101, 11, 111, 0, 100, 10, 110, 60];
    assert_eq!(seeds_in_order(&mut buffer), expected);
}

#[test]
fn a_waiting_writer_blocks_no_other_and_keeps_its_turn() {
    let mut buffer = v1(65_536, Policy::Ring);
    for writer in 1..=3 {
        chunk(1, writer, 0)
            .packet(20, writer as u8)
            .flags(if writer == 3 { 0 } else { LAST | PATCH })
            .copy_to(&mut buffer);
        chunk(1, writer, 1)
            .packet(20, writer as u8 + 10)
            .flags(if writer == 3 { 0 } else { FIRST })
            .copy_to(&mut buffer);
    }
    assert_eq!(seeds_in_order(&mut buffer), [3, 13]);
    chunk(1, 3, 2).packet(20, 23).copy_to(&mut buffer);
    for writer in [2, 1] {
        assert!(buffer.try_patch(1, writer, 0, &[], false));
    }
    let got = read_all(&mut buffer);
    let writers: Vec<_> = got.iter().map(|got| (got.writer, got.pieces)).collect();
    assert_eq!(writers, [(1, 2), (2, 2), (3, 1)]);
}

#[test]
fn the_earlier_owner_of_an_id_is_read_first() {
    let mut buffer = v1(65_536, Policy::Ring);
    chunk(1, 1, 5).packet(20, 1).copy_to(&mut buffer);
    chunk(1, 2, 0).packet(20, 9).copy_to(&mut buffer);
    buffer.writer_ended(1, 1);
    buffer.writer_began(1, 1);
    chunk(1, 1, 0).packet(20, 2).copy_to(&mut buffer);
    assert_eq!(seeds_in_order(&mut buffer), [1, 2, 9]);
}

#[test]
fn a_clone_reads_in_the_same_order_and_a_replacement_from_the_start() {
    let mut buffer = v1(65_536, Policy::Ring);
    take_turns(&mut buffer);
    read_one(&mut buffer).expect("a packet");
    let mut clone = buffer.try_clone().expect("memory");
    let mut empty = buffer.new_like().expect("memory");
    assert_eq!(order(&mut clone), order(&mut buffer));
    assert_eq!(order(&mut empty), []);
    chunk(2, 1, 2).packet(20, 7).copy_to(&mut empty);
    chunk(1, 3, 2).packet(20, 8).copy_to(&mut empty);
    assert_eq!(seeds_in_order(&mut empty), [8, 7]);
}

#[test]
fn unread_writers_use_no_memory_once_their_chunks_are_overwritten() {
    let mut buffer = v1(4096, Policy::Ring);
    let mut usage = 0;
    for round in 0..20u16 {
        for writer in 0..2000 {
            chunk(round, writer, 0).packet(20, 1).copy_to(&mut buffer);
        }
        if round == 1 {
            usage = buffer.memory_usage();
        }
    }
    // The histograms of all writers are kept.
    let of_histograms = buffer.writer_stats().count() as u64 * 512;
    assert!(buffer.memory_usage() < usage + of_histograms);
    let last: Vec<_> = order(&mut buffer);
    assert!(last.len() > 50 && last.is_sorted());
}

proptest! {
    #![proptest_config(cases(64))]

    /// With both modes, each writer's packets are the same for any sequence of writes and reads.
    #[test]
    fn the_modes_differ_only_in_the_order_of_writers(
        steps in prop::collection::vec((1..4u16, 1..4u16, 1..200usize, 0..8u8), 1..300),
    ) {
        let mut buffers = [v1(32 * 4096, Policy::Ring), ring(32 * 4096)];
        let mut ids = BTreeMap::new();
        let mut got = [(); 2].map(|()| BTreeMap::<_, Vec<u8>>::new());
        for (number, (producer, writer, size, then)) in (0..251u8).cycle().zip(steps) {
            let id = ids.entry((producer, writer)).or_insert(0);
            for (buffer, got) in buffers.iter_mut().zip(&mut got) {
                chunk(producer, writer, *id).packet(size.max(3), number).copy_to(buffer);
                let reads = match then { 0 => usize::MAX, 1 => 3, _ => 0 };
                for _ in 0..reads {
                    let Some(packet) = read_one(buffer) else { break };
                    let key = (packet.producer, packet.writer);
                    got.entry(key).or_default().push(packet.bytes[0]);
                }
            }
            *id += 1;
        }
        for (buffer, got) in buffers.iter_mut().zip(&mut got) {
            for (key, seed) in order(buffer) {
                got.entry(key).or_default().push(seed);
            }
        }
        prop_assert_eq!(&got[0], &got[1]);
    }
}
