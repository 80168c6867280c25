//! Very large and very small sizes.

use crate::support::*;
use ferretto_service::buffer::{BufferOptions, TraceBuffer};

const MIB: u64 = 1 << 20;

/// Returns the resident memory of this process in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.expect("a number") * 1024
}

#[test]
fn tracebuf_002_a_buffer_of_4_gib_costs_what_is_in_it() {
    let before = resident();
    let Ok(mut buffer) = TraceBuffer::new(BufferOptions::ring(4_194_300 * 1024)) else {
        println!("skipped: 4 GiB of address space are not available");
        return;
    };
    for id in 0..1000 {
        chunk(1, 1, id).packet(4000, id as u8).copy_to(&mut buffer);
    }
    // Other tests run at the same time, and use far less than this.
    assert!(resident() < before + 2048 * MIB);
    assert!(buffer.memory_usage() < 5 * MIB);
    let got = read_all(&mut buffer);
    assert_eq!(got.len(), 1000);
    assert!(got.iter().all(|got| got.loss == 0));
}

#[test]
fn a_buffer_of_4_kib_holds_one_chunk_of_its_size() {
    let mut buffer = ring(4096);
    for id in 0..3u8 {
        chunk(1, 1, id.into()).packet(4080, id).copy_to(&mut buffer);
    }
    assert_eq!(seeds(&mut buffer), [(2, 65)]);
    let violations = buffer.stats().abi_violations;
    chunk(1, 1, 3).packet(4081, 3).copy_to(&mut buffer);
    assert_eq!(buffer.stats().abi_violations, violations + 1);
    assert!(read_all(&mut buffer).is_empty());
}

#[test]
fn fragments_may_have_one_byte_or_none() {
    let mut buffer = ring(MIB);
    let made = (0..2000u32).fold(chunk(1, 1, 0), |made, index| {
        made.bytes(&[index as u8]).bytes(&[])
    });
    made.copy_to(&mut buffer);
    let got = seeds(&mut buffer);
    assert_eq!(got.len(), 2000);
    assert!((0..2000u32).all(|index| got[index as usize] == (index as u8, 0)));
    assert_eq!(buffer.stats().abi_violations, 0);
}

#[test]
fn a_packet_may_have_pieces_of_one_byte_or_none() {
    const PIECES: u32 = 1000;
    let mut buffer = ring(MIB);
    let mut expected = Vec::new();
    for id in 0..PIECES {
        let flags = u8::from(id > 0) * FIRST + u8::from(id < PIECES - 1) * LAST;
        let byte = [id as u8];
        let bytes = &byte[..(id % 2) as usize];
        expected.extend(bytes);
        chunk(1, 1, id)
            .bytes(bytes)
            .flags(flags)
            .copy_to(&mut buffer);
    }
    let got = read_all(&mut buffer);
    assert_eq!(got.len(), 1);
    assert_eq!((&got[0].bytes, got[0].loss), (&expected, 0));
    assert_eq!(got[0].pieces, PIECES as usize);
}

#[test]
fn a_packet_of_empty_pieces_is_skipped() {
    let mut buffer = ring(MIB);
    for (id, flags) in [(0, LAST), (1, FIRST | LAST), (2, FIRST)] {
        chunk(1, 1, id).bytes(&[]).flags(flags).copy_to(&mut buffer);
    }
    chunk(1, 1, 3).packet(20, 7).copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(7, 0)]);
}

#[test]
fn all_65535_writers_of_a_producer_have_their_sequences() {
    let mut buffer = ring(64 * MIB);
    for round in 0..2 {
        for writer in 1..=u16::MAX {
            chunk(1, writer, round)
                .packet(20, writer as u8)
                .copy_to(&mut buffer);
        }
    }
    assert_eq!(buffer.sequences(), 65_535);
    // Less than half a kilobyte for each, including its chunks.
    let each = buffer.memory_usage() / 65_535;
    assert!(each < 512, "{each} bytes a writer");
    let got = read_all(&mut buffer);
    assert_eq!(got.len(), 2 * 65_535);
    assert!(got.iter().all(|got| got.loss == 0));
    // Idle ones are forgotten with the next chunk.
    chunk(1, 1, 2).packet(20, 1).copy_to(&mut buffer);
    assert!(buffer.sequences() <= 1152, "{}", buffer.sequences());
    let each = buffer.memory_usage() / 65_535;
    assert!(each < 448, "{each} bytes a writer that was");
}

#[test]
fn a_busy_writer_does_not_starve_others() {
    let mut buffer = ring(64 * MIB);
    let mut id = 0;
    let mut chatter = |buffer: &mut TraceBuffer, count: u32| {
        for _ in 0..count {
            chunk(1, 1, id).packet(4000, 1).copy_to(buffer);
            id += 1;
        }
    };
    chatter(&mut buffer, 50);
    chunk(1, 2, 0).packet(20, 2).copy_to(&mut buffer);
    // More is always written than read; the quiet writer still has its turn.
    for _ in 0..60 {
        chatter(&mut buffer, 3);
        let got = read_one(&mut buffer).expect("a packet");
        if got.writer == 2 {
            return;
        }
    }
    panic!("the quiet writer was never read");
}
