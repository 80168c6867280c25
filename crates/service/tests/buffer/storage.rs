//! The positions of chunks, and how space is freed for them.

use crate::support::*;
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
    // The largest size of a config still fits 32 bits after rounding. Memory may be short.
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
fn the_index_is_small_compared_to_the_kept_chunks() {
    for writers in [1, 50] {
        let mut buffer = ring(8 << 20);
        let mut payload = 0;
        for index in 0..5000u32 {
            let made = (0..10).fold(
                chunk(1, (index % writers) as u16, index / writers),
                |made, step| made.packet(100 + (index as usize * 7 + step * 61) % 350, 1),
            );
            made.copy_to(&mut buffer);
            payload += made.payload.len() as u64;
        }
        let stats = buffer.stats();
        // The part of the written bytes that has not been overwritten.
        let kept = payload * (stats.bytes_written - stats.bytes_overwritten) / stats.bytes_written;
        let ratio = buffer.memory_usage() as f64 / kept as f64;
        assert!(ratio <= 1.05, "{ratio} with {writers} writers");
    }
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
    // 4 records of 1024 fill it; the first is replaced by a small one, then by one that needs the
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
    assert_eq!(
        seeds(&mut buffer),
        [(3, 0)],
        "packets that were read are not lost"
    );
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
    assert_eq!(read_all(&mut buffer).len(), 0, "the buffer stays closed");
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
