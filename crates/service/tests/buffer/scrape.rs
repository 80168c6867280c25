//! Chunks that arrive more than once.

use crate::support::*;
use ferretto_service::buffer::{BufferOptions, Policy, TraceBuffer};

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
fn tracebuf_027_relay_024_scrape_read_commit_gives_each_packet_once() {
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
fn a_loss_is_reported_once_for_repeated_commits() {
    let mut buffer = ring(8192);
    let lossy = chunk(1, 1, 0).packet(20, 1).raw(&ABORT).count(2).pad(500);
    lossy.copy_to(&mut buffer);
    chunk(1, 1, 1).packet(20, 2).copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(1, 0), (2, 129)]);
    // The chunk was scraped, and is now committed.
    lossy.copy_to(&mut buffer);
    chunk(1, 1, 2).packet(20, 3).copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(3, 0)]);
}

#[test]
fn a_loss_at_the_end_of_a_scraped_chunk_is_reported() {
    for policy in [Policy::Ring, Policy::Discard] {
        let mut buffer = TraceBuffer::new(BufferOptions {
            policy,
            ..BufferOptions::ring(8192)
        })
        .expect("memory");
        let made = chunk(1, 1, 0).packet(20, 1);
        let scraped = made.clone().packet(20, 9).pad(500).scraped();
        scraped.copy_to(&mut buffer);
        assert_eq!(seeds(&mut buffer), [(1, 0)]);
        made.raw(&ABORT).count(2).pad(500).copy_to(&mut buffer);
        chunk(1, 1, 1).packet(20, 2).copy_to(&mut buffer);
        assert_eq!(seeds(&mut buffer), [(2, 129)]);
    }
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
fn a_scraped_chunk_without_new_fragments_is_not_lost() {
    let mut buffer = ring(4096);
    let made = chunk(1, 1, 0).packet(20, 1).packet(20, 2);
    // The last counted packet of an unfinished chunk is ignored.
    made.clone().packet(20, 3).scraped().copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(1, 0), (2, 0)]);
    made.clone().packet(20, 3).scraped().copy_to(&mut buffer);
    made.copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), []);
    assert_eq!(buffer.stats().chunks_discarded, 0);
    // An honest producer never sends it a third time.
    made.copy_to(&mut buffer);
    assert_eq!(buffer.stats().chunks_discarded, 1);
    chunk(1, 1, 1).packet(20, 4).copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(4, 0)]);
}

#[test]
fn an_aborted_packet_counts_once_for_repeated_commits() {
    for read_between in [false, true] {
        let mut buffer = ring(4096);
        let made = chunk(1, 1, 0).packet(20, 1).raw(&ABORT).count(3);
        made.clone().pad(200).scraped().copy_to(&mut buffer);
        if read_between {
            assert_eq!(seeds(&mut buffer), [(1, 0)]);
        }
        made.clone().count(2).pad(200).copy_to(&mut buffer);
        made.clone().count(2).pad(200).copy_to(&mut buffer);
        chunk(1, 1, 1).packet(20, 2).copy_to(&mut buffer);
        let (_, loss) = *seeds(&mut buffer).last().expect("the last packet");
        assert_ne!(loss, 0);
        assert_eq!(buffer.stats().trace_writer_packet_loss, 1, "{read_between}");
        chunk(1, 1, 2).packet(20, 3).copy_to(&mut buffer);
        assert_eq!(seeds(&mut buffer), [(3, 0)], "the loss is reported once");
    }
}
