//! CommitData: chunks from a producer into buffers. Every value here is the producer's claim.

use ferretto_proto::CommitDataRequest;
use ferretto_proto::commit_data_request::{ChunkToPatch, ChunksToMove};
use ferretto_shm::ChunkHeader;

use super::{Discarded, Memory, Producer};
use crate::buffer::{Chunk, Patch};
use crate::ids::{BufferId, WriterId};
use crate::limits::{INLINE_CHUNK_SIZES, MAX_PATCHES_PER_CHUNK, MAX_WRITER_ID, PATCH_SIZE};
use crate::pool::BufferPool;

impl Producer {
    /// Moves and patches chunks. Returns false if there is nowhere to commit from; nothing is done
    /// then. `scratch` is memory to work in.
    pub(crate) fn commit(
        &mut self,
        buffers: &mut BufferPool,
        request: &CommitDataRequest,
        scratch: &mut Vec<u8>,
        discarded: &mut Discarded,
    ) -> bool {
        if !matches!(self.memory, Memory::Shared(_) | Memory::Inline) {
            return false;
        }
        // Nobody has more to commit than fits the memory, unless the same chunks are made to look
        // full again and again.
        let mut left = self.memory.size();
        for moved in &request.chunks_to_move {
            let accepted = match &moved.data {
                Some(data) => move_inline(buffers, self, moved, data),
                None => move_shared(buffers, self, moved, scratch, &mut left),
            };
            discarded.chunks += u64::from(accepted == MoveOutcome::Refused);
        }
        let mut patches = Vec::new();
        for patched in &request.chunks_to_patch {
            discarded.patches += apply_patches(buffers, self, patched, &mut patches);
        }
        true
    }
}

/// The outcome of one entry of a commit.
#[derive(Debug, PartialEq, Eq)]
enum MoveOutcome {
    Done,
    /// There was no chunk where the entry says. Not counted: a page that was scraped and a chunk
    /// committed twice look like this too.
    Nothing,
    /// The chunk is not for this buffer, or not a chunk.
    Refused,
}

fn move_shared(
    buffers: &mut BufferPool,
    producer: &mut Producer,
    moved: &ChunksToMove,
    payload: &mut Vec<u8>,
    left: &mut u64,
) -> MoveOutcome {
    if *left == 0 {
        return MoveOutcome::Refused;
    }
    let Memory::Shared(region) = &producer.memory else {
        return MoveOutcome::Nothing;
    };
    let location = (moved.page.unwrap_or(0), moved.chunk.unwrap_or(0));
    // Free again when it goes out of scope, whatever is found wrong with it.
    let Some(chunk) = region.try_read(location.0, location.1) else {
        return MoveOutcome::Nothing;
    };
    let target = moved.target_buffer.unwrap_or(0);
    if producer.copied.take(location, chunk.header(), target) {
        return MoveOutcome::Done;
    }
    let payload = chunk.payload(payload);
    *left = left.saturating_sub(payload.len() as u64);
    store(buffers, producer, target, chunk.header(), true, payload)
}

fn move_inline(
    buffers: &mut BufferPool,
    producer: &Producer,
    moved: &ChunksToMove,
    data: &[u8],
) -> MoveOutcome {
    if !INLINE_CHUNK_SIZES.contains(&data.len()) {
        return MoveOutcome::Refused;
    }
    let Some((header, payload)) = ChunkHeader::split(data) else {
        return MoveOutcome::Refused;
    };
    let complete = !moved.chunk_incomplete.unwrap_or(false);
    store(
        buffers,
        producer,
        moved.target_buffer.unwrap_or(0),
        header,
        complete,
        payload,
    )
}

fn store(
    buffers: &mut BufferPool,
    producer: &Producer,
    target: u32,
    header: ChunkHeader,
    complete: bool,
    payload: &[u8],
) -> MoveOutcome {
    // Upstream takes the low 16 bits, so that 0x10001 means 1; honest producers never send such.
    let Ok(target) = BufferId::try_from(target) else {
        return MoveOutcome::Refused;
    };
    let pinned = producer.writers.get(&header.writer_id);
    if !producer.allowed.contains(&target) || pinned.is_some_and(|pinned| *pinned != target) {
        return MoveOutcome::Refused;
    }
    let Some(buffer) = buffers.get_mut(target) else {
        return MoveOutcome::Refused;
    };
    buffer.copy_chunk(&Chunk {
        producer: producer.id,
        identity: producer.identity(),
        writer: header.writer_id,
        id: header.chunk_id,
        fragments: header.count,
        flags: header.flags.bits(),
        complete,
        payload,
    });
    MoveOutcome::Done
}

/// Returns how many patches were refused before they reached a buffer. `patches` is memory to work
/// in.
fn apply_patches(
    buffers: &mut BufferPool,
    producer: &Producer,
    patched: &ChunkToPatch,
    patches: &mut Vec<Patch>,
) -> u64 {
    let all = patched.patches.len() as u64;
    let Ok(target) = BufferId::try_from(patched.target_buffer.unwrap_or(0)) else {
        return all;
    };
    let writer = patched.writer_id.unwrap_or(0);
    if !(1..=MAX_WRITER_ID).contains(&writer)
        || patched.patches.len() > MAX_PATCHES_PER_CHUNK
        || !producer.allowed.contains(&target)
    {
        return all;
    }
    let Some(buffer) = buffers.get_mut(target) else {
        return all;
    };
    patches.clear();
    let mut refused = 0;
    for patch in &patched.patches {
        let data: Option<[u8; PATCH_SIZE]> =
            patch.data.as_deref().and_then(|data| data.try_into().ok());
        match data {
            Some(data) => patches.push(Patch {
                offset: patch.offset.unwrap_or(0),
                data,
            }),
            None => refused += 1,
        }
    }
    let more = patched.has_more_patches.unwrap_or(false);
    let chunk = patched.chunk_id.unwrap_or(0);
    // A chunk that is gone already is in the buffer's own counters.
    let _ = buffer.try_patch(producer.id, writer as WriterId, chunk, patches, more);
    refused
}
