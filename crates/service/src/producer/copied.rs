//! Complete chunks that were scraped and are still to be committed.

use std::collections::BTreeMap;

use ferretto_shm::{ChunkFlags, ChunkHeader, ScrapedChunk};

use crate::ids::BufferId;

/// The location of a chunk in shared memory: its page, and its place in that.
type Location = (u32, u32);

/// Chunks of one producer whose buffer has all of them already, by where they lie. Their commits
/// only free them: stored again after they were read, they would look as if they came too late, and
/// be counted as lost.
///
/// There are no more than there are chunks in the shared memory.
#[derive(Debug, Default)]
pub(crate) struct Copied(BTreeMap<Location, (BufferId, ChunkHeader)>);

impl Copied {
    /// Returns how many chunks are noted.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if a chunk that is being scraped is in its buffer already; if not, it is noted,
    /// as it will be.
    pub(crate) fn note(&mut self, chunk: &ScrapedChunk<'_>, target: BufferId) -> bool {
        let header = chunk.header();
        let is_final = chunk.is_complete() && !header.flags.contains(ChunkFlags::NEEDS_PATCHING);
        if !is_final {
            // Its commit may bring new fragments.
            self.0.remove(&chunk.location());
            return false;
        }
        let known = self.0.insert(chunk.location(), (target, header));
        known == Some((target, header))
    }

    /// Returns true if a chunk that is being committed is in its buffer already. It is free now, so
    /// that another may come to where it was.
    pub(crate) fn take(&mut self, location: Location, header: ChunkHeader, target: u32) -> bool {
        let known = self.0.remove(&location);
        known.is_some_and(|(buffer, known)| u32::from(buffer) == target && known == header)
    }
}
