//! Scraping: copies chunks that producers have written but not committed from their shared memory.

use ferretto_shm::Scrape;

use super::{Memory, Producer};
use crate::buffer::Chunk;
use crate::ids::BufferId;
use crate::pool::BufferPool;

/// The size of a chunk's header.
const CHUNK_HEADER: usize = 8;

impl Producer {
    /// Returns the buffers that the producer may write to, and so be scraped for.
    pub(crate) fn buffers(&self) -> Vec<BufferId> {
        self.allowed.iter().copied().collect()
    }

    /// Returns true if there may be chunks to copy for one of these buffers.
    pub(crate) fn is_scraped_for(&self, wanted: &[BufferId]) -> bool {
        self.scraped
            && !self.writers.is_empty()
            && matches!(self.memory, Memory::Shared(_))
            && wanted.iter().any(|buffer| self.allowed.contains(buffer))
    }

    /// Continues a walk that copies the producer's uncommitted chunks without changing them. When
    /// they are committed later, only their new fragments are added. Returns true at the end of the
    /// walk.
    pub(crate) fn scrape(
        &mut self,
        buffers: &mut BufferPool,
        wanted: &[BufferId],
        walk: &mut Scrape,
        budget: &mut u64,
    ) -> bool {
        if !self.is_scraped_for(wanted) {
            return true;
        }
        let identity = self.identity();
        let Memory::Shared(region) = &self.memory else {
            return true;
        };
        let copied = &mut self.copied;
        let mut payload = Vec::new();
        walk.step(region, budget, &mut |chunk| {
            let header = chunk.header();
            // A chunk does not name its buffer, but its writer's registration does.
            let Some(target) = self.writers.get(&header.writer_id) else {
                return;
            };
            if !wanted.contains(target) || !self.allowed.contains(target) {
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
            // The whole size of the chunk is reserved in the buffer, so that it can grow when it
            // comes again.
            payload.resize(chunk.size().saturating_sub(CHUNK_HEADER), 0);
            buffer.copy_chunk(&Chunk {
                producer: self.id,
                identity,
                writer: header.writer_id,
                id: header.chunk_id,
                fragments: header.count,
                flags: header.flags.bits(),
                complete: chunk.is_complete(),
                payload: &payload,
            });
        })
    }
}
