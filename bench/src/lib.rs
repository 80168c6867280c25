//! Benchmarks, with upstream's names where upstream has the same.
//!
//! `cargo bench -p ferretto-bench` runs all of them, in about a minute; a name or a part of one after
//! it runs some. Compare only what was measured in turns on one machine.

use std::time::Duration;

/// Size of the shared-memory chunks that upstream's benchmarks count.
pub const CHUNK_SIZE: usize = 4096;

/// The bytes of a chunk, and how many packets are in them.
#[derive(Debug, Clone)]
pub struct ChunkTemplate {
    /// Fragments, each with its size.
    pub payload: Vec<u8>,
    /// Number of fragments.
    pub fragments: u16,
}

/// The chunks of upstream's trace buffer benchmarks: 5 to 15 packets of 50 to 500 bytes each, of which
/// a chunk holds 2.7 KB on average.
pub fn chunk_templates(count: usize) -> Vec<ChunkTemplate> {
    // std::minstd_rand with upstream's seed.
    let mut state = 42u64;
    let mut random = move || {
        state = state * 48271 % 0x7fff_ffff;
        state as usize
    };
    (0..count)
        .map(|index| {
            let mut template = ChunkTemplate {
                payload: Vec::new(),
                fragments: 0,
            };
            let room = CHUNK_SIZE - 16;
            let packets = 5 + random() % 11;
            let mut used = 0;
            for _ in 0..packets {
                if used >= room - 50 {
                    break;
                }
                let size = (50 + random() % 451).min(room - used);
                if size < 10 {
                    break;
                }
                push_packet(&mut template, size, b'a' + (index % 26) as u8);
                used += size;
            }
            template
        })
        .collect()
}

fn push_packet(template: &mut ChunkTemplate, size: usize, fill: u8) {
    let len = if size <= 128 { size - 1 } else { size - 2 };
    if size <= 128 {
        template.payload.push(len as u8);
    } else {
        template
            .payload
            .extend([len as u8 | 0x80, (len >> 7) as u8]);
    }
    template.payload.resize(template.payload.len() + len, fill);
    template.fragments += 1;
}

/// How long one benchmark is warmed up and measured.
pub const WARM_UP: Duration = Duration::from_millis(300);
/// See [`WARM_UP`].
pub const MEASUREMENT: Duration = Duration::from_millis(1500);
