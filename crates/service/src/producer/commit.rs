//! CommitData: moves chunks from a producer into buffers. The producer may have chosen any values.

use ferretto_ipc::port::commit::{self, Commit, Move, PatchedChunk};
use ferretto_proto::CommitDataRequest;
use ferretto_proto::commit_data_request::ChunksToMove;
use ferretto_shm::ChunkHeader;

use super::{Discarded, Memory, Producer};
use crate::buffer::{Chunk, Patch};
use crate::ids::{BufferId, WriterId};
use crate::limits::{INLINE_CHUNK_SIZES, MAX_PATCHES_PER_CHUNK, MAX_WRITER_ID};
use crate::pool::BufferPool;

/// Reusable memory.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    payload: Vec<u8>,
    patches: Vec<Patch>,
}

impl Producer {
    /// Moves and patches chunks. Does nothing and returns false if there is no shared memory to
    /// commit from.
    pub(crate) fn commit_shared(
        &mut self,
        buffers: &mut BufferPool,
        commit: &Commit,
        scratch: &mut Scratch,
        discarded: &mut Discarded,
    ) -> bool {
        if !matches!(self.memory, Memory::Shared(_)) {
            return false;
        }
        let mut left = self.memory.size();
        for moved in &commit.moves {
            let payload = &mut scratch.payload;
            let outcome = move_shared(buffers, self, *moved, payload, &mut left);
            discarded.chunks += u64::from(outcome == MoveOutcome::Refused);
        }
        for (chunk, patches) in commit.patched_chunks() {
            let patches = patches.iter().copied();
            discarded.patches += apply_patches(buffers, self, chunk, patches, &mut scratch.patches);
        }
        true
    }

    /// Moves and patches chunks. Does nothing and returns false if there is no memory to commit
    /// from.
    pub(crate) fn commit(
        &mut self,
        buffers: &mut BufferPool,
        request: &CommitDataRequest,
        scratch: &mut Scratch,
        discarded: &mut Discarded,
    ) -> bool {
        if !matches!(self.memory, Memory::Shared(_) | Memory::Inline) {
            return false;
        }
        // A commit cannot hold more than the memory, unless the producer marks the same chunks as
        // complete again and again.
        let mut left = self.memory.size();
        for moved in &request.chunks_to_move {
            let accepted = match &moved.data {
                Some(data) => move_inline(buffers, self, moved, data),
                None => {
                    let payload = &mut scratch.payload;
                    move_shared(buffers, self, moved.into(), payload, &mut left)
                }
            };
            discarded.chunks += u64::from(accepted == MoveOutcome::Refused);
        }
        for chunk in &request.chunks_to_patch {
            let patches = chunk.patches.iter().map(commit::patch);
            discarded.patches +=
                apply_patches(buffers, self, chunk.into(), patches, &mut scratch.patches);
        }
        true
    }
}

/// The outcome of one entry of a commit.
#[derive(Debug, PartialEq, Eq)]
enum MoveOutcome {
    Done,
    /// There is no chunk at this index of the page. This is not counted, since a scraped page or a
    /// chunk committed twice looks the same.
    Nothing,
    /// The chunk is not allowed in this buffer, or malformed.
    Refused,
}

fn move_shared(
    buffers: &mut BufferPool,
    producer: &mut Producer,
    moved: Move,
    payload: &mut Vec<u8>,
    left: &mut u64,
) -> MoveOutcome {
    if *left == 0 {
        return MoveOutcome::Refused;
    }
    let Memory::Shared(region) = &producer.memory else {
        return MoveOutcome::Nothing;
    };
    let location = (moved.page, moved.chunk);
    // The chunk is freed when it goes out of scope, even after an error.
    let Some(chunk) = region.try_read(location.0, location.1) else {
        return MoveOutcome::Nothing;
    };
    let target = moved.target_buffer;
    if producer.copied.take(location, chunk.header(), target) {
        return MoveOutcome::Done;
    }
    // Prefetches the record that the chunk will replace.
    if let Some(buffer) = BufferId::try_from(target)
        .ok()
        .and_then(|id| buffers.get(id))
    {
        buffer.prefetch(chunk.size());
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
    // Upstream takes the low 16 bits, so that 0x10001 means 1; honest producers never send such
    // ids.
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

/// Applies patches. Returns the number of patches refused before they reached a buffer. `scratch`
/// is reusable memory.
fn apply_patches(
    buffers: &mut BufferPool,
    producer: &Producer,
    patched: PatchedChunk,
    patches: impl ExactSizeIterator<Item = commit::Patch>,
    scratch: &mut Vec<Patch>,
) -> u64 {
    let all = patches.len() as u64;
    let Ok(target) = BufferId::try_from(patched.target_buffer) else {
        return all;
    };
    if !(1..=MAX_WRITER_ID).contains(&patched.writer_id)
        || patches.len() > MAX_PATCHES_PER_CHUNK
        || !producer.allowed.contains(&target)
    {
        return all;
    }
    let Some(buffer) = buffers.get_mut(target) else {
        return all;
    };
    scratch.clear();
    scratch.extend(patches.filter_map(|(offset, data)| {
        Some(Patch {
            offset,
            data: data?,
        })
    }));
    let refused = all - scratch.len() as u64;
    let (writer, chunk) = (patched.writer_id as WriterId, patched.chunk_id);
    // The buffer counts patches for chunks that are gone.
    let _ = buffer.try_patch(
        producer.id,
        writer,
        chunk,
        scratch,
        patched.has_more_patches,
    );
    refused
}
