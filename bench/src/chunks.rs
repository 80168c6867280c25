//! The chunks of upstream's trace buffer benchmarks.

/// The size of the shared-memory chunks that upstream's benchmarks count.
pub const CHUNK_SIZE: usize = 4096;

/// The bytes of a chunk, and the number of its packets.
#[derive(Debug, Clone)]
pub struct ChunkTemplate {
    /// The fragments, each with its size.
    pub payload: Vec<u8>,
    /// The number of fragments.
    pub fragments: u16,
}

/// Returns chunks of 5 to 15 packets of 50 to 500 bytes each, of which a chunk holds 2.7 KB on
/// average.
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
            let capacity = CHUNK_SIZE - 16;
            let packets = 5 + random() % 11;
            let mut used = 0;
            for _ in 0..packets {
                if used >= capacity - 50 {
                    break;
                }
                let size = (50 + random() % 451).min(capacity - used);
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

/// Returns the payload size of `count` chunks.
pub fn payload_bytes(templates: &[ChunkTemplate], chunks: usize) -> u64 {
    let bytes = (0..chunks).map(|index| templates[index % templates.len()].payload.len());
    bytes.sum::<usize>() as u64
}
