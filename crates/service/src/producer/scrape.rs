//! Scraping: copying chunks that producers have written but not committed from their shared memory.

use super::{Memory, Producer};
use crate::buffer::Chunk;
use crate::ids::BufferId;
use crate::pool::BufferPool;

/// Bytes before a chunk's payload.
const CHUNK_HEADER: usize = 8;

impl Producer {
    /// Copies its uncommitted chunks. They stay as they are: when they are committed later, only
    /// new fragments are taken.
    pub(crate) fn scrape(&mut self, pool: &mut BufferPool, wanted: &[BufferId]) {
        if self.scraped && wanted.iter().any(|buffer| self.allowed.contains(buffer)) {
            copy_uncommitted(pool, wanted, self);
        }
    }
}

fn copy_uncommitted(buffers: &mut BufferPool, wanted: &[BufferId], producer: &mut Producer) {
    let identity = producer.identity();
    let Memory::Shared(region) = &producer.memory else {
        return;
    };
    if producer.writers.is_empty() {
        return;
    }
    let copied = &mut producer.copied;
    let mut payload = Vec::new();
    region.for_each_uncommitted(|chunk| {
        let header = chunk.header();
        // A chunk does not say where it is meant to go; its writer did.
        let Some(target) = producer.writers.get(&header.writer_id) else {
            return;
        };
        if !wanted.contains(target) || !producer.allowed.contains(target) {
            return;
        }
        let Some(buffer) = buffers.get_mut(*target) else {
            return;
        };
        if copied.note(chunk, *target) {
            return;
        }
        payload.clear();
        chunk.copy_payload(&mut payload);
        // The buffer leaves as much room as it is given, for the chunk to grow when it comes again.
        payload.resize(chunk.size().saturating_sub(CHUNK_HEADER), 0);
        buffer.copy_chunk(&Chunk {
            producer: producer.id,
            identity,
            writer: header.writer_id,
            id: header.chunk_id,
            fragments: header.count,
            flags: header.flags.bits(),
            complete: chunk.is_complete(),
            payload: &payload,
        });
    });
}
