//! Scraping: copies chunks that producers have written but not committed from their shared memory.

use super::{Memory, Producer};
use crate::buffer::Chunk;
use crate::ids::BufferId;
use crate::pool::BufferPool;

/// The size of a chunk's header.
const CHUNK_HEADER: usize = 8;

impl Producer {
    /// Copies the producer's uncommitted chunks without changing them. When they are committed
    /// later, only their new fragments are added.
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
        // A chunk does not name its buffer, but its writer's registration does.
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
        // The whole size of the chunk is reserved in the buffer, so that it can grow when it comes
        // again.
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
