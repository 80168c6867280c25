//! Input that no correct producer sends, in large amounts.

use crate::support::*;

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
    // More fragments announced than present.
    chunk(1, 1, 0).packet(20, 1).count(9).copy_to(&mut buffer);
    // A fragment beyond the chunk.
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
    // Sizes near the limits of their types.
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
fn tracebuf_049_scattered_ids_do_not_break_the_order() {
    let mut buffer = ring(1 << 16);
    for id in [0, 1 << 30, 0xa000_0000, 0x7fff_ffff, 5, 0x8000_0001, 3] {
        chunk(1, 1, id).packet(20, id as u8).copy_to(&mut buffer);
    }
    let got: Vec<_> = seeds(&mut buffer).into_iter().map(|got| got.0).collect();
    assert_eq!(got, [0, 3, 5, 0, 0xff]);
    assert_eq!(buffer.stats().abi_violations, 2);
}

#[test]
fn tracebuf_049_chunks_deep_among_others_are_stored() {
    let mut buffer = ring(16 << 20);
    let text = |id: u32| chunk(1, 1, id).bytes(&id.to_le_bytes());
    for id in 0..200_000u32 {
        text(id * 2).copy_to(&mut buffer);
    }
    for id in (50_000..150_000u32).rev() {
        text(id * 2 + 1).copy_to(&mut buffer);
    }
    assert_eq!(buffer.stats().abi_violations, 0);
    assert_eq!(buffer.stats().chunks_committed_out_of_order, 100_000);
    let deep = |id: &u32| (100_000..300_000).contains(id) || id.is_multiple_of(2);
    let expected: Vec<u32> = (0..400_000).filter(deep).collect();
    let got: Vec<u32> = read_all(&mut buffer)
        .into_iter()
        .map(|got| u32::from_le_bytes(got.bytes[..].try_into().unwrap()))
        .collect();
    assert_eq!(got, expected);
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
