//! What a trace buffer must do, item by item.

mod buffer_support;

use buffer_support::*;
use ferretto_service::buffer::{
    BufferError, BufferOptions, HISTOGRAM_BUCKETS, Policy, TraceBuffer,
};

#[test]
fn tracebuf_002_impossible_sizes_are_refused() {
    let made = |size| TraceBuffer::new(BufferOptions::ring(size));
    assert_eq!(made(0).err(), Some(BufferError::Size(0)));
    let too_large = 4_194_304 * 1024;
    assert_eq!(made(too_large).err(), Some(BufferError::Size(too_large)));
    assert_eq!(made(1).map(|buffer| buffer.size()).ok(), Some(4096));
    // The largest a config can ask for does not round up to more than 32 bits. Memory may be short.
    if let Ok(buffer) = made(4_194_303 * 1024) {
        assert_eq!(buffer.size(), (1 << 32) - 4096);
    }
}

#[test]
fn tracebuf_002_memory_is_touched_as_it_fills() {
    let mut buffer = ring(1 << 30);
    assert_eq!(buffer.used_size(), 0);
    assert!(!buffer.has_data());
    chunk(1, 1, 0).packet(100, 1).copy_to(&mut buffer);
    assert_eq!(buffer.used_size(), 16 + 112);
    assert!(buffer.has_data());
}

#[test]
fn tracebuf_004_a_ring_keeps_the_newest_chunks_whole() {
    let mut buffer = ring(4096);
    for id in 0..32 {
        let seed = id as u8;
        chunk(1, 1, id)
            .packet(120, seed)
            .packet(120, seed)
            .copy_to(&mut buffer);
    }
    // 16 records of 256 bytes fit.
    let got = read_all(&mut buffer);
    let expected: Vec<_> = (16..32u8).flat_map(|seed| [seed, seed]).collect();
    let seeds: Vec<_> = got.iter().map(|got| got.bytes[0]).collect();
    assert_eq!(seeds, expected);
    assert!(got.iter().all(|got| got.bytes == body(120, got.bytes[0])));
    assert_eq!(buffer.stats().chunks_overwritten, 16);
    assert_eq!(buffer.stats().bytes_overwritten, 16 * 256);
}

#[test]
fn tracebuf_005_a_chunk_that_does_not_fit_the_tail_wraps() {
    let mut buffer = ring(4096);
    for id in 0..4 {
        chunk(1, 1, id).packet(1000, id as u8).copy_to(&mut buffer);
    }
    // 4 records of 1024 fill it; the first is replaced by a small one, then one that needs the
    // rest of the first and the second.
    chunk(1, 1, 4).packet(500, 4).copy_to(&mut buffer);
    chunk(1, 1, 5).packet(3000, 5).copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(4, 65), (5, 0)]);
    let stats = buffer.stats();
    assert_eq!(stats.chunks_overwritten, 4);
    assert_eq!(stats.write_wrap_count, 1);

    let mut buffer = ring(4096);
    chunk(1, 1, 0).packet(3000, 0).copy_to(&mut buffer);
    chunk(1, 1, 1).packet(900, 1).copy_to(&mut buffer);
    chunk(1, 1, 2).packet(2900, 2).copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(1, 65), (2, 0)]);
    chunk(1, 1, 3).packet(2900, 3).copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(3, 0)], "what was read is not lost");
}

#[test]
fn tracebuf_006_v1_discard_goes_on_while_the_reader_keeps_up() {
    let mut buffer = v1(4096, Policy::Discard);
    for id in 0..20 {
        chunk(1, 1, id).packet(1000, id as u8).copy_to(&mut buffer);
        assert_eq!(read_all(&mut buffer).len(), 1, "chunk {id}");
    }
    for id in 20..30 {
        chunk(1, 1, id).packet(1000, id as u8).copy_to(&mut buffer);
    }
    assert_eq!(buffer.stats().chunks_discarded, 6);
    assert_eq!(read_all(&mut buffer).len(), 4);
    chunk(1, 1, 30).packet(1000, 30).copy_to(&mut buffer);
    assert_eq!(read_all(&mut buffer).len(), 0, "it stays closed");
    assert_eq!(buffer.stats().chunks_overwritten, 0);
}

#[test]
fn tracebuf_007_discard_stops_at_the_first_chunk_that_does_not_fit() {
    let mut buffer = discard(4096);
    for id in 0..3 {
        chunk(1, 1, id).packet(1000, id as u8).copy_to(&mut buffer);
    }
    assert_eq!(read_one(&mut buffer).map(|got| got.bytes[0]), Some(0));
    chunk(1, 1, 3).packet(1500, 3).copy_to(&mut buffer);
    chunk(1, 1, 4).packet(10, 4).copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(1, 0), (2, 0)]);
    assert_eq!(buffer.stats().chunks_discarded, 2);
    assert_eq!(buffer.stats().write_wrap_count, 0);
}

#[test]
fn tracebuf_008_an_exact_fill_is_no_wrap_yet() {
    let mut buffer = ring(4096);
    for id in 0..4 {
        chunk(1, 1, id).packet(1008, id as u8).copy_to(&mut buffer);
    }
    assert_eq!(buffer.stats().write_wrap_count, 0);
    chunk(1, 1, 4).packet(1008, 4).copy_to(&mut buffer);
    assert_eq!(buffer.stats().write_wrap_count, 1);
    assert_eq!(seeds(&mut buffer).len(), 4);
}

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
    assert_ne!(got[0].1 | got[1].1, 0);
    let stats = buffer.stats();
    assert_eq!(stats.trace_writer_packet_loss, 1);
    assert_eq!(stats.abi_violations, 0);
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
    assert_eq!(seeds(&mut buffer), [(1, 1), (2, 0), (3, 1), (4, 0)]);
    chunk(1, 1, 5).packet(20, 5).copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(5, 1)]);
}

#[test]
fn tracebuf_021_a_chunk_waits_for_its_last_patch() {
    let mut buffer = ring(4096);
    chunk(1, 1, 0)
        .bytes(b"aaaa....bbbb")
        .flags(LAST | PATCH)
        .copy_to(&mut buffer);
    chunk(1, 1, 1)
        .bytes(b"cc")
        .flags(FIRST)
        .copy_to(&mut buffer);
    assert!(read_all(&mut buffer).is_empty());
    assert!(buffer.try_patch(1, 1, 0, &[patch(5, *b"1234")], true));
    assert!(read_all(&mut buffer).is_empty());
    assert!(buffer.try_patch(1, 1, 0, &[patch(5, *b"5678")], false));
    let got = read_all(&mut buffer);
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].bytes, b"aaaa5678bbbbcc");
    assert_eq!(buffer.stats().patches_succeeded, 2);
    assert_eq!(buffer.stats().patches_failed, 0);
}

#[test]
fn tracebuf_022_only_the_fragment_to_be_patched_waits() {
    let mut buffer = ring(4096);
    chunk(1, 1, 0)
        .packet(20, 1)
        .packet(20, 2)
        .flags(LAST | PATCH)
        .copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(1, 0)]);
    // The end of one packet does not wait for the next, which starts in the same chunk.
    let mut buffer = ring(4096);
    chunk(1, 1, 0)
        .packet(20, 1)
        .flags(LAST)
        .copy_to(&mut buffer);
    chunk(1, 1, 1)
        .packet(20, 2)
        .packet(20, 3)
        .flags(FIRST | LAST | PATCH)
        .copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(1, 0)]);
}

#[test]
fn tracebuf_023_patches_at_the_edge() {
    let mut buffer = ring(4096);
    chunk(1, 1, 0).bytes(b"........").copy_to(&mut buffer);
    assert!(!buffer.try_patch(1, 1, 0, &[patch(6, *b"fail")], false));
    assert!(!buffer.try_patch(1, 1, 0, &[patch(u32::MAX, *b"fail")], false));
    assert!(!buffer.try_patch(1, 1, 0, &[patch(u32::MAX - 3, *b"fail")], false));
    assert!(buffer.try_patch(1, 1, 0, &[patch(5, *b"last")], false));
    assert_eq!(buffer.stats().patches_failed, 3);
    assert_eq!(read_all(&mut buffer)[0].bytes, b"....last");
}

#[test]
fn tracebuf_024_patches_for_nothing_fail() {
    let mut buffer = ring(4096);
    chunk(1, 1, 0).packet(20, 1).copy_to(&mut buffer);
    assert!(!buffer.try_patch(1, 1, 1, &[patch(4, [9; 4])], false));
    assert!(!buffer.try_patch(1, 2, 0, &[patch(4, [9; 4])], false));
    assert!(!buffer.try_patch(2, 1, 0, &[patch(4, [9; 4])], false));
    assert_eq!(buffer.stats().patches_failed, 3);
    assert_eq!(read_all(&mut buffer)[0].bytes, body(20, 1));
}

#[test]
fn tracebuf_025_chunks_waiting_for_patches_may_be_overwritten() {
    let mut buffer = ring(4096);
    chunk(1, 1, 0)
        .packet(1000, 1)
        .flags(LAST | PATCH)
        .copy_to(&mut buffer);
    chunk(1, 1, 1)
        .packet(1000, 2)
        .packet(1000, 3)
        .flags(FIRST)
        .copy_to(&mut buffer);
    assert!(read_all(&mut buffer).is_empty());
    chunk(2, 1, 0).packet(1000, 9).copy_to(&mut buffer);
    assert_eq!(read_all(&mut buffer).len(), 1);
    // This replaces chunk 0, and so makes the rest of the writer readable.
    chunk(2, 1, 1).packet(900, 10).copy_to(&mut buffer);
    let got = seeds(&mut buffer);
    assert_eq!(got.len(), 2);
    let (seed, loss) = got[0];
    assert_eq!(seed, 3);
    assert_eq!(loss & 65, 65);
    assert_eq!(got[1], (10, 0));
    assert_eq!(buffer.stats().chunks_overwritten, 1);
}

#[test]
fn tracebuf_026_an_incomplete_chunk_gives_all_but_its_last_fragment() {
    let mut buffer = ring(8192);
    let started = chunk(1, 1, 0).packet(20, 1).packet(20, 2).packet(20, 3);
    started.clone().pad(1000).scraped().copy_to(&mut buffer);
    chunk(1, 1, 1).packet(20, 5).copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(1, 0), (2, 0)]);
    assert_eq!(seeds(&mut buffer), []);
    started.packet(20, 4).pad(1000).copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(3, 0), (4, 0), (5, 0)]);
}

#[test]
fn tracebuf_027_scrape_read_commit_gives_each_packet_once() {
    for policy in [Policy::Ring, Policy::Discard] {
        let mut buffer = TraceBuffer::new(BufferOptions {
            policy,
            ..BufferOptions::ring(8192)
        })
        .expect("memory");
        let mut made = chunk(1, 1, 0).packet(20, 0);
        let mut got = Vec::new();
        for seed in 1..10 {
            made = made.packet(20, seed);
            made.clone().pad(1000).scraped().copy_to(&mut buffer);
            got.extend(seeds(&mut buffer));
        }
        made.pad(1000).copy_to(&mut buffer);
        chunk(1, 1, 1).packet(20, 10).copy_to(&mut buffer);
        got.extend(seeds(&mut buffer));
        let expected: Vec<_> = (0..11).map(|seed| (seed, 0)).collect();
        assert_eq!(got, expected);
    }
}

#[test]
fn tracebuf_028_scraping_the_same_twice_changes_nothing() {
    let mut buffer = ring(8192);
    let made = chunk(1, 1, 0)
        .packet(20, 1)
        .packet(20, 2)
        .pad(500)
        .scraped();
    made.copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(1, 0)]);
    made.copy_to(&mut buffer);
    chunk(1, 1, 1).packet(20, 3).copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), []);
    assert_eq!(buffer.stats().chunks_rewritten, 0);
    assert_eq!(buffer.stats().abi_violations, 0);
}

#[test]
fn tracebuf_029_what_a_scraped_chunk_gained_survives_its_eviction() {
    let mut buffer = ring(4096);
    let made = chunk(1, 1, 0).packet(20, 1).packet(20, 2);
    made.clone().pad(500).scraped().copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(1, 0)]);
    for id in 0..8 {
        chunk(2, 1, id).packet(1000, 9).copy_to(&mut buffer);
    }
    read_all(&mut buffer);
    made.packet(20, 3).pad(500).copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(2, 0), (3, 0)]);
}

#[test]
fn tracebuf_029_the_rest_of_a_scraped_chunk_is_missed_once_passed() {
    let mut buffer = ring(4096);
    let made = chunk(1, 1, 0).packet(20, 1).packet(20, 2);
    made.clone().pad(500).scraped().copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(1, 0)]);
    for id in 0..8 {
        chunk(2, 1, id).packet(1000, 9).copy_to(&mut buffer);
    }
    read_all(&mut buffer);
    chunk(1, 1, 1).packet(20, 3).copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(3, 3)]);
    made.pad(500).copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), []);
}

#[test]
fn tracebuf_030_a_read_copy_moves_to_the_write_position() {
    let mut buffer = ring(4096);
    let made = chunk(1, 1, 0).packet(20, 1).packet(20, 2);
    made.clone().pad(500).scraped().copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(1, 0)]);
    for id in 0..3 {
        chunk(2, 1, id).packet(1000, 9).copy_to(&mut buffer);
    }
    read_all(&mut buffer);
    made.packet(20, 3).pad(500).copy_to(&mut buffer);
    assert_eq!(buffer.stats().chunks_relocated, 1);
    // This would replace the old copy.
    chunk(2, 1, 3).packet(450, 9).copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(2, 0), (3, 0), (9, 0)]);
    assert_eq!(buffer.stats().chunks_overwritten, 0);
}

#[test]
fn tracebuf_030_a_moved_chunk_goes_on_in_one_already_there() {
    let mut buffer = ring(4096);
    let made = chunk(1, 1, 0).packet(20, 1).packet(20, 2);
    made.clone().pad(500).scraped().copy_to(&mut buffer);
    chunk(1, 1, 1)
        .packet(20, 3)
        .packet(20, 4)
        .flags(FIRST)
        .copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(1, 0)]);
    made.flags(LAST).pad(500).copy_to(&mut buffer);
    // Padding after the last fragment of a chunk is not part of it.
    let got = read_all(&mut buffer);
    assert_eq!(got.len(), 2);
    assert_eq!(got[0].bytes, [body(20, 2), body(20, 3)].concat());
    assert_eq!((got[1].bytes[0], got[1].loss), (4, 0));
}

#[test]
fn tracebuf_031_on_a_full_discarding_buffer_it_stays_in_place() {
    let mut buffer = discard(4096);
    let made = chunk(1, 1, 0).packet(20, 1).packet(20, 2);
    made.clone().pad(496).scraped().copy_to(&mut buffer);
    for id in 0..3 {
        chunk(2, 1, id).packet(1160, 9).copy_to(&mut buffer);
    }
    assert_eq!(read_all(&mut buffer).len(), 4);
    made.packet(20, 3).pad(496).copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(2, 0), (3, 0)]);
    assert_eq!(buffer.stats().chunks_rewritten, 1);
    assert_eq!(buffer.stats().chunks_relocated, 0);
    assert_eq!(buffer.stats().chunks_discarded, 0);
}

#[test]
fn tracebuf_032_a_second_commit_may_not_take_away() {
    let mut buffer = ring(4096);
    chunk(1, 1, 0)
        .packet(20, 1)
        .packet(20, 2)
        .flags(FIRST)
        .copy_to(&mut buffer);
    chunk(1, 1, 0)
        .packet(20, 1)
        .flags(FIRST)
        .copy_to(&mut buffer);
    assert_eq!(buffer.stats().abi_violations, 1);
    chunk(1, 1, 0)
        .packet(20, 1)
        .packet(20, 2)
        .copy_to(&mut buffer);
    assert_eq!(buffer.stats().abi_violations, 2);
    chunk(1, 1, 0)
        .packet(20, 1)
        .packet(40, 2)
        .flags(FIRST)
        .copy_to(&mut buffer);
    assert_eq!(
        buffer.stats().abi_violations,
        3,
        "a complete chunk cannot grow"
    );
    assert_eq!(seeds(&mut buffer), [(2, 9)]);
}

#[test]
fn tracebuf_033_a_chunk_is_consumed_once() {
    let mut buffer = ring(4096);
    let made = chunk(1, 1, 0).packet(20, 1);
    made.copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(1, 0)]);
    made.copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), []);
    assert_eq!(buffer.stats().chunks_discarded, 1);
    assert_eq!(buffer.stats().chunks_written, 1);
}

#[test]
fn tracebuf_034_what_was_read_is_not_overwritten() {
    let mut buffer = ring(4096);
    for id in 0..100 {
        chunk(1, 1, id).packet(900, id as u8).copy_to(&mut buffer);
        assert_eq!(seeds(&mut buffer), [(id as u8, 0)]);
    }
    let stats = buffer.stats();
    assert_eq!(stats.chunks_overwritten, 0);
    assert_eq!(stats.chunks_read, 100);
    assert_eq!(stats.bytes_read, stats.bytes_written);
    assert!(stats.padding_bytes_cleared > 0);
}

#[test]
fn tracebuf_035_all_bytes_written_are_read() {
    let mut buffer = ring(65536);
    for id in 0..50 {
        chunk(1, id % 3, u32::from(id) / 3)
            .packet(30 + usize::from(id), 1)
            .packet(200, 2)
            .copy_to(&mut buffer);
    }
    assert_eq!(read_all(&mut buffer).len(), 100);
    let stats = buffer.stats();
    assert_eq!(stats.bytes_read, stats.bytes_written);
    assert_eq!(stats.chunks_read, 50);
    assert_eq!(stats.write_wrap_count, 0);
}

#[test]
fn tracebuf_036_a_clone_goes_on_where_the_source_is() {
    let mut buffer = ring(4096);
    for id in 0..7 {
        chunk(1, 1, id).packet(600, id as u8).copy_to(&mut buffer);
    }
    chunk(1, 2, 0)
        .packet(20, 50)
        .flags(LAST)
        .copy_to(&mut buffer);
    read_one(&mut buffer);
    read_one(&mut buffer);
    let mut clone = buffer.try_clone().expect("memory");
    chunk(1, 1, 7).packet(20, 7).copy_to(&mut clone);
    assert!(!clone.try_patch(1, 2, 0, &[patch(4, [0; 4])], false));
    let from_clone = read_all(&mut clone);
    assert!(!from_clone.is_empty());
    assert_eq!(from_clone, read_all(&mut buffer));
}

#[test]
fn tracebuf_037_a_clone_has_not_read_anything() {
    let mut buffer = ring(4096);
    for id in 0..10 {
        chunk(1, 1, id)
            .packet(600, 1)
            .packet(20, 2)
            .flags(FIRST | LAST)
            .copy_to(&mut buffer);
    }
    while read_one(&mut buffer).is_some() {}
    let before = buffer.stats();
    assert!(before.chunks_read > 0 && before.readaheads_succeeded > 0);
    let clone = buffer.try_clone().expect("memory").stats();
    assert_eq!(clone.chunks_read, 0);
    assert_eq!(clone.bytes_read, 0);
    assert_eq!(clone.readaheads_succeeded, 0);
    assert_eq!(clone.readaheads_failed, 0);
    assert_eq!(clone.chunks_written, before.chunks_written);
    assert_eq!(clone.bytes_overwritten, before.bytes_overwritten);
    assert_eq!(
        buffer.try_clone().expect("memory").writer_stats().count(),
        0
    );
}

#[test]
fn tracebuf_038_a_buffer_can_be_replaced_by_an_empty_one() {
    let mut buffer = discard(4096);
    for id in 0..10 {
        chunk(1, 1, id).packet(600, 1).copy_to(&mut buffer);
    }
    let empty = buffer.new_like().expect("memory");
    let mut moved = std::mem::replace(&mut buffer, empty);
    assert!(!buffer.has_data());
    assert_eq!(buffer.options(), moved.options());
    chunk(1, 1, 10).packet(600, 10).copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(10, 0)]);
    assert_eq!(read_all(&mut moved).len(), 6);
}

#[test]
fn tracebuf_039_histogram_buckets() {
    let mut buffer = ring(1 << 20);
    // With their sizes they take 128, 130, 16384 and 16385 bytes.
    for (id, len) in [127, 128, 16382, 16383].into_iter().enumerate() {
        chunk(1, 7, id as u32)
            .bytes(&vec![1; len])
            .copy_to(&mut buffer);
    }
    let stats: Vec<_> = buffer.writer_stats().collect();
    assert_eq!(stats.len(), 1);
    assert_eq!((stats[0].producer, stats[0].writer), (1, 7));
    let mut counts = [0; HISTOGRAM_BUCKETS];
    counts[2] = 1;
    counts[3] = 1;
    counts[9] = 1;
    counts[10] = 1;
    assert_eq!(stats[0].counts, counts);
    assert_eq!(stats[0].sums[10], 16385);
}

#[test]
fn tracebuf_048_reading_stays_right_while_chunks_come_in() {
    let mut buffer = ring(65536);
    let mut next = [0u32; 4];
    let mut expected = [0u32; 4];
    for round in 0..3000usize {
        let writer = (round * 7 + round / 5) % 4;
        let id = next[writer];
        next[writer] += 1;
        chunk(1, writer as u16, id)
            .bytes(&id.to_le_bytes())
            .bytes(&vec![0; 5 + round * 31 % 900])
            .copy_to(&mut buffer);
        for _ in 0..round % 5 {
            let Some(got) = read_one(&mut buffer) else {
                continue;
            };
            assert_eq!(got.loss, 0);
            if let Ok(id) = <[u8; 4]>::try_from(&got.bytes[..])
                && got.bytes.len() == 4
            {
                let writer = usize::from(got.writer);
                assert_eq!(u32::from_le_bytes(id), expected[writer]);
                expected[writer] += 1;
            }
        }
    }
    read_all(&mut buffer);
    assert_eq!(buffer.stats().chunks_overwritten, 0);
    assert_eq!(buffer.stats().bytes_read, buffer.stats().bytes_written);
}

#[test]
fn tracebuf_049_a_chunk_larger_than_the_buffer_is_refused() {
    let mut buffer = ring(4096);
    chunk(1, 1, 0).packet(4096, 1).copy_to(&mut buffer);
    chunk(1, 1, 1).pad(65536).copy_to(&mut buffer);
    chunk(1, 1, 2).pad(65535).scraped().copy_to(&mut buffer);
    assert_eq!(buffer.stats().abi_violations, 3);
    assert_eq!(buffer.used_size(), 0);
    chunk(1, 1, 3).packet(4080, 3).copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(3, 0)]);
}

#[test]
fn tracebuf_049_bytes_that_are_not_fragments_are_cut_off() {
    let mut buffer = ring(1 << 20);
    // More fragments announced than there are.
    chunk(1, 1, 0).packet(20, 1).count(9).copy_to(&mut buffer);
    // One that leads outside.
    chunk(1, 1, 1)
        .packet(20, 2)
        .raw(&[50, 1, 2])
        .count(2)
        .copy_to(&mut buffer);
    // A size that does not end.
    chunk(1, 1, 2)
        .packet(20, 3)
        .raw(&[0xff; 12])
        .count(2)
        .copy_to(&mut buffer);
    // Sizes near the ends of their types.
    chunk(1, 1, 3)
        .raw(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01])
        .count(1)
        .copy_to(&mut buffer);
    chunk(1, 1, 4)
        .raw(&[0xff, 0xff, 0xff, 0xff, 0x0f])
        .count(1)
        .copy_to(&mut buffer);
    assert_eq!(buffer.stats().abi_violations, 5);
    assert_eq!(seeds(&mut buffer), [(1, 0), (2, 0), (3, 0)]);
}

#[test]
fn tracebuf_049_ids_all_over_the_place_do_not_break_the_order() {
    let mut buffer = ring(1 << 16);
    for id in [0, 1 << 30, 0xa000_0000, 0x7fff_ffff, 5, 0x8000_0001, 3] {
        chunk(1, 1, id).packet(20, id as u8).copy_to(&mut buffer);
    }
    let got: Vec<_> = seeds(&mut buffer).into_iter().map(|got| got.0).collect();
    assert_eq!(got, [0, 3, 5, 0, 0xff]);
    assert_eq!(buffer.stats().abi_violations, 2);
}

#[test]
fn tracebuf_049_idle_writers_are_forgotten() {
    let mut buffer = ring(1 << 16);
    for writer in 0..65_535u16 {
        chunk(1, writer, 0).packet(20, 1).copy_to(&mut buffer);
        assert!(read_one(&mut buffer).is_some());
    }
    read_all(&mut buffer);
    assert!(buffer.sequences() <= 1153, "{}", buffer.sequences());
    // The last ones are remembered.
    chunk(1, 65_534, 5).packet(20, 1).copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(1, 3)]);
}

#[test]
fn tracebuf_049_a_large_packet_arrives_whole() {
    let mut buffer = ring(32 << 20);
    let chunks = 20 * 256;
    for id in 0..chunks {
        let flags = match id {
            0 => LAST,
            id if id + 1 == chunks => FIRST,
            _ => FIRST | LAST,
        };
        chunk(1, 1, id)
            .packet(4080, id as u8)
            .flags(flags)
            .copy_to(&mut buffer);
        if id % 1000 == 0 {
            assert!(read_one(&mut buffer).is_none());
        }
    }
    let got = read_all(&mut buffer);
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].bytes.len(), chunks as usize * 4078);
    assert_eq!(got[0].loss, 0);
}

#[test]
fn tracebuf_052_many_patches() {
    let mut buffer = ring(4096);
    chunk(1, 1, 0)
        .packet(1000, 1)
        .flags(LAST | PATCH)
        .copy_to(&mut buffer);
    let patches: Vec<_> = (0..1025).map(|_| patch(10, [7; 4])).collect();
    assert!(buffer.try_patch(1, 1, 0, &patches, true));
    assert!(buffer.try_patch(1, 1, 0, &[], false));
    assert_eq!(buffer.stats().patches_succeeded, 1025);
    assert!(!buffer.try_patch(1, 1, 77, &patches, false));
    assert_eq!(buffer.stats().patches_failed, 1);
}

#[test]
fn a_patched_size_is_judged_anew() {
    let mut buffer = ring(4096);
    chunk(1, 1, 0)
        .packet(20, 1)
        .packet(20, 2)
        .copy_to(&mut buffer);
    // The first fragment now claims to be longer than the chunk.
    assert!(buffer.try_patch(1, 1, 0, &[patch(0, [0xff, 0x7f, 0, 0])], false));
    chunk(1, 1, 1).packet(20, 3).copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(3, 1 | 4)]);
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
