//! The commit in the making.

use std::fmt;

use crate::chunk::{OwnedChunk, Released};
use crate::commit::{ChunkToMove, ChunkToPatch, Commit, FlushCallback, Patch};
use crate::patch::{FilledHole, PatchList};
use crate::service::ScrapedChunk;
use crate::startup::Target;

/// A chunk that goes out with the next commit.
pub(crate) struct PendingChunk {
    target: Target,
    page: u32,
    index: u32,
    size: usize,
    chunk: Chunk,
}

enum Chunk {
    /// Kept from the service because its holes may still be filled in place. A scraper must never
    /// see a complete chunk whose need for patches disappears later.
    Held(OwnedChunk),
    Released(Released),
    /// On its way from one to the other, or lost to contention.
    Gone,
}

/// The content of the next commit.
#[derive(Default)]
pub(crate) struct Pending {
    chunks: Vec<PendingChunk>,
    /// Unfinished chunks. They come first: each may be followed by the same one finished.
    copies: Vec<ChunkToMove>,
    /// Their buffers are filled in at the end.
    patches: Vec<(Target, ChunkToPatch)>,
    flush_request_id: Option<u64>,
    bytes: usize,
    /// Called when the service has processed the commit.
    pub(crate) callbacks: Vec<FlushCallback>,
    /// Do not wait for a batch to fill up.
    pub(crate) urgent: bool,
}

impl Pending {
    /// Size of the chunks gathered so far, in bytes of shared memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a flush acknowledgement; the highest wins, it stands for all before it.
    pub(crate) fn acknowledge(&mut self, request_id: u64) {
        self.flush_request_id = self.flush_request_id.max(Some(request_id));
    }

    /// Adds a chunk. With `direct` patching it is kept back while it has holes.
    pub(crate) fn add_chunk(&mut self, mut chunk: PendingChunk, target: Target, direct: bool) {
        chunk.release_unless_patched(direct);
        chunk.target = target;
        self.bytes += chunk.size;
        self.chunks.push(chunk);
    }

    /// Adds a copy of a chunk that is still being written.
    pub(crate) fn add_copy(&mut self, chunk: &ScrapedChunk<'_>, target: u16) {
        let (page, index) = chunk.location();
        let mut data = chunk.header().to_bytes().to_vec();
        chunk.copy_payload(&mut data);
        // Of its full size, so that the finished one can take its place.
        data.resize(chunk.size(), 0);
        self.copies.push(ChunkToMove {
            page,
            chunk: index,
            target_buffer: target,
            data: Some(data),
            is_incomplete: true,
        });
    }

    /// Moves the filled holes out of `patches`: into chunks that are still held, or into patch
    /// messages. Returns whether there are any of the latter.
    pub(crate) fn add_patches(
        &mut self,
        writer_id: u16,
        target: Target,
        patches: &mut PatchList,
    ) -> bool {
        let mut any = false;
        while let Some(hole) = patches.pop_ready() {
            let more = patches.continues_in(hole.chunk_id);
            if !self.patch_in_place(writer_id, hole, more) {
                self.add_patch(writer_id, target, hole, more);
                any = true;
            }
        }
        any
    }

    fn patch_in_place(&mut self, writer_id: u16, hole: FilledHole, more: bool) -> bool {
        for pending in self.chunks.iter_mut().rev() {
            let Chunk::Held(chunk) = &mut pending.chunk else {
                continue;
            };
            if chunk.writer_id() != Some(writer_id) || chunk.chunk_id() != Some(hole.chunk_id) {
                continue;
            }
            chunk.patch(hole.offset, hole.data);
            if !more {
                chunk.clear_needs_patching();
                pending.release();
            }
            return true;
        }
        false
    }

    fn add_patch(&mut self, writer_id: u16, target: Target, hole: FilledHole, more: bool) {
        let patch = Patch {
            offset: hole.offset,
            data: hole.data,
        };
        match self.patches.last_mut() {
            Some((_, last))
                if last.chunk_id == hole.chunk_id
                    && last.writer_id == writer_id
                    && last.patches.len() < ChunkToPatch::MAX_PATCHES =>
            {
                last.patches.push(patch);
                last.has_more_patches = more;
            }
            _ => {
                let chunk = ChunkToPatch {
                    target_buffer: 0,
                    writer_id,
                    chunk_id: hole.chunk_id,
                    patches: vec![patch],
                    has_more_patches: more,
                };
                self.patches.push((target, chunk));
            }
        }
    }

    /// Fills in the buffer of chunks written before it had a number.
    pub(crate) fn resolve(&mut self, reserved: Target, buffer: Target) {
        let chunks = self.chunks.iter_mut().map(|pending| &mut pending.target);
        let patches = self.patches.iter_mut().map(|(target, _)| target);
        for target in chunks.chain(patches) {
            if *target == reserved {
                *target = buffer;
            }
        }
    }

    /// The commit to send, with all buffers known. `emulated`: with the chunks inside. Leaves
    /// nothing, but room for as many chunks.
    pub(crate) fn take_commit(&mut self, emulated: bool) -> Commit {
        let mut chunks = std::mem::take(&mut self.chunks);
        let all = std::mem::take(self);
        let mut moves = all.copies;
        moves.reserve_exact(chunks.len());
        for mut pending in chunks.drain(..) {
            pending.release();
            let Chunk::Released(released) = pending.chunk else {
                continue;
            };
            moves.push(ChunkToMove {
                page: pending.page,
                chunk: pending.index,
                target_buffer: pending.target.buffer(),
                data: emulated.then(|| released.take_bytes()),
                is_incomplete: false,
            });
        }
        self.chunks = chunks;
        let patches = all.patches.into_iter().map(|(target, chunk)| ChunkToPatch {
            target_buffer: target.buffer(),
            ..chunk
        });
        Commit {
            moves,
            patches: patches.collect(),
            flush_request_id: all.flush_request_id,
            callbacks: all.callbacks,
        }
    }
}

impl PendingChunk {
    /// A chunk as it is, for no buffer yet; `None` if detached.
    pub(crate) fn new(chunk: OwnedChunk) -> Option<Self> {
        let (page, index, size) = chunk.location()?;
        Some(Self {
            target: Target::Buffer(0),
            page,
            index,
            size,
            chunk: Chunk::Held(chunk),
        })
    }

    /// Gives the chunk to the service, unless its holes may be filled by `direct` patching.
    pub(crate) fn release_unless_patched(&mut self, direct: bool) {
        if let Chunk::Held(chunk) = &self.chunk
            && !(direct && chunk.needs_patching())
        {
            self.release();
        }
    }

    fn release(&mut self) {
        self.chunk = match std::mem::replace(&mut self.chunk, Chunk::Gone) {
            Chunk::Held(chunk) => chunk.release().map_or(Chunk::Gone, Chunk::Released),
            other => other,
        };
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("chunks", &self.chunks.len())
            .field("patches", &self.patches.len())
            .field("urgent", &self.urgent)
            .finish()
    }
}
