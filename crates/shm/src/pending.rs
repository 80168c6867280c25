//! The commit that is being built.

use std::fmt;

use crate::chunk::{OwnedChunk, Released};
use crate::commit::{ChunkToMove, ChunkToPatch, Commit, FlushCallback, Patch};
use crate::patch::{FilledHole, PatchList};
use crate::scrape::ScrapedChunk;
use crate::startup::Target;

/// A chunk for the next commit.
pub(crate) struct PendingChunk {
    target: Target,
    page: u32,
    index: u32,
    size: usize,
    chunk: Chunk,
}

enum Chunk {
    /// Kept back, since its holes may still be filled in place. A scraper must never see a complete
    /// chunk that needs patches first and none later.
    Held(OwnedChunk),
    Released(Released),
    /// In transition from one to the other, or lost to contention.
    Gone,
}

/// The content of the next commit.
#[derive(Default)]
pub(crate) struct Pending {
    chunks: Vec<PendingChunk>,
    /// Copies of unfinished chunks. They come first, since the finished chunk may follow.
    copies: Vec<ChunkToMove>,
    /// The patches; their buffers are filled in at the end.
    patches: Vec<(Target, ChunkToPatch)>,
    flush_request_id: Option<u64>,
    bytes: usize,
    /// Functions to call when the service has processed the commit.
    pub(crate) callbacks: Vec<FlushCallback>,
    /// Set if the output must not wait for a batch to fill up.
    pub(crate) urgent: bool,
}

impl Pending {
    /// The size of the collected chunks in shared memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a flush acknowledgement. The highest one includes all earlier ones.
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

    /// Adds a copy of an unfinished chunk.
    pub(crate) fn add_copy(&mut self, chunk: &ScrapedChunk<'_>, target: u16) {
        let (page, index) = chunk.location();
        let mut data = chunk.header().to_bytes().to_vec();
        chunk.copy_payload(&mut data);
        // The copy has the full size, so that the finished chunk can replace it.
        data.resize(chunk.size(), 0);
        self.copies.push(ChunkToMove {
            page,
            chunk: index,
            target_buffer: target,
            data: Some(data),
            is_incomplete: true,
        });
    }

    /// Moves the filled holes out of `patches` into patch messages, or with `direct` patching into
    /// chunks that are kept back. Returns true if there are any of the former.
    pub(crate) fn add_patches(
        &mut self,
        writer_id: u16,
        target: Target,
        patches: &mut PatchList,
        direct: bool,
    ) -> bool {
        let mut any = false;
        while let Some(hole) = patches.pop_ready() {
            let more = patches.continues_in(hole.chunk_id);
            if !(direct && self.patch_in_place(writer_id, hole, more)) {
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

    /// Sets the buffer of chunks written before its id was known.
    pub(crate) fn resolve(&mut self, reserved: Target, buffer: Target) {
        let chunks = self.chunks.iter_mut().map(|pending| &mut pending.target);
        let patches = self.patches.iter_mut().map(|(target, _)| target);
        for target in chunks.chain(patches) {
            if *target == reserved {
                *target = buffer;
            }
        }
    }

    /// Takes the commit to send, with all buffers known. With `emulated`, the chunks are inside.
    /// The capacity for as many chunks remains.
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
    /// Creates an entry for a chunk without a buffer; `None` if the chunk is detached.
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

    /// Releases the chunk to the service, unless its holes can be filled by `direct` patching.
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
