//! Requests that announce chunks to the service.

use std::fmt;

/// The largest encoded size of a commit: the service's frame limit of 128 KiB, with space for the
/// envelope.
pub const MAX_COMMIT_BYTES: usize = 128 * 1024 - 512;

/// A function called once the service has processed a commit.
pub type FlushCallback = Box<dyn FnOnce() + Send>;

/// A complete chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkToMove {
    /// The index of the page.
    pub page: u32,
    /// The index of the chunk in its page.
    pub chunk: u32,
    /// The central buffer of the chunk.
    pub target_buffer: u16,
    /// The chunk with its header, if there is no shared memory.
    pub data: Option<Vec<u8>>,
    /// Set if the chunk in `data` is still being written: its last fragment is missing.
    pub is_incomplete: bool,
}

/// Four bytes to write into a chunk that the service already has, or is about to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    /// The offset from the start of the chunk's payload.
    pub offset: u16,
    /// The bytes.
    pub data: [u8; 4],
}

/// The patches of one chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkToPatch {
    /// The central buffer of the chunk.
    pub target_buffer: u16,
    /// The writer of the chunk.
    pub writer_id: u16,
    /// The id of the chunk.
    pub chunk_id: u32,
    /// The patches, at least one.
    pub patches: Vec<Patch>,
    /// True if holes remain after these patches.
    pub has_more_patches: bool,
}

impl ChunkToPatch {
    /// The largest number of patches in an entry. The service discards entries with more.
    pub const MAX_PATCHES: usize = 1024;
}

/// One CommitData request.
///
/// The service processes the moves, then the patches, then the flush acknowledgement.
#[derive(Default)]
pub struct Commit {
    /// Chunks to copy out of shared memory.
    pub moves: Vec<ChunkToMove>,
    /// Patches.
    pub patches: Vec<ChunkToPatch>,
    /// The highest flush request that is done.
    pub flush_request_id: Option<u64>,
    /// Functions to call when the service replies. If there are any, the request must ask for a
    /// reply. If the connection is lost, they are dropped without a call.
    pub callbacks: Vec<FlushCallback>,
}

impl Commit {
    /// Returns true if the service has to reply.
    pub fn wants_reply(&self) -> bool {
        !self.callbacks.is_empty()
    }

    /// Splits the commit into requests whose encodings stay below `limit` bytes, in order. The last
    /// one has the flush acknowledgement and the callbacks.
    pub(crate) fn split(self, limit: usize) -> Vec<Self> {
        let moves = self.moves.iter().map(Self::size_of_move);
        let patches = self.patches.iter().map(Self::size_of_patches);
        if moves.chain(patches).sum::<usize>() < limit {
            return vec![self];
        }
        let mut parts = Vec::new();
        let mut part = Self::default();
        let mut bytes = 0;
        let mut start_new = |part: &mut Self, bytes: &mut usize, more: usize| {
            if *bytes > 0 && *bytes + more >= limit {
                parts.push(std::mem::take(part));
                *bytes = 0;
            }
            *bytes += more;
        };
        for chunk in self.moves {
            start_new(&mut part, &mut bytes, Self::size_of_move(&chunk));
            part.moves.push(chunk);
        }
        for chunk in self.patches {
            start_new(&mut part, &mut bytes, Self::size_of_patches(&chunk));
            part.patches.push(chunk);
        }
        part.flush_request_id = self.flush_request_id;
        part.callbacks = self.callbacks;
        parts.push(part);
        parts
    }

    /// Returns an upper bound of the encoded size of a move, in bytes.
    fn size_of_move(chunk: &ChunkToMove) -> usize {
        32 + chunk.data.as_ref().map_or(0, Vec::len)
    }

    /// Returns an upper bound of the encoded size of a chunk's patches, in bytes.
    fn size_of_patches(chunk: &ChunkToPatch) -> usize {
        32 + 20 * chunk.patches.len()
    }
}

impl fmt::Debug for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Commit")
            .field("moves", &self.moves)
            .field("patches", &self.patches)
            .field("flush_request_id", &self.flush_request_id)
            .field("wants_reply", &self.wants_reply())
            .finish()
    }
}
