//! Scraping: what producers have written but not committed, copied from their shared memory.

use super::{Memory, Producer};
use crate::buffer::Chunk;
use crate::limits::{BufferId, ProducerId, SessionId};
use crate::pool::BufferPool;
use crate::service::Service;

/// Bytes before a chunk's payload.
const CHUNK_HEADER: usize = 8;

impl Service {
    /// Copies what every producer still holds for this session.
    pub(crate) fn scrape_all(&mut self, session: SessionId) {
        let producers: Vec<ProducerId> = self.producers.keys().copied().collect();
        for producer in producers {
            self.scrape(session, producer);
        }
    }

    /// Copies what one producer still holds for this session. The chunks stay as they are: when the
    /// producer commits them later, only what is new is taken.
    pub(crate) fn scrape(&mut self, session: SessionId, id: ProducerId) {
        let Some(producer) = self.producers.get_mut(&id) else {
            return;
        };
        let Some(session) = self.sessions.get(&session) else {
            return;
        };
        if producer.scraped && session.buffers.iter().any(|b| producer.allowed.contains(b)) {
            copy_uncommitted(&mut self.buffers, &session.buffers, id, producer);
        }
    }
}

fn copy_uncommitted(
    buffers: &mut BufferPool,
    wanted: &[BufferId],
    id: ProducerId,
    producer: &mut Producer,
) {
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
            producer: id,
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
