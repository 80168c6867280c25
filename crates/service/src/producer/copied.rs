//! Complete chunks that were scraped but not committed yet.

use std::collections::BTreeMap;

use ferretto_shm::{ChunkFlags, ChunkHeader, ScrapedChunk};

use crate::ids::BufferId;

/// The position of a chunk in shared memory: its page, and its index in the page.
type Location = (u32, u32);

/// The chunks of one producer that were copied completely, by position. Their commits only free
/// them: storing such a chunk again after it was read would count it as late, and so as lost.
///
/// There are at most as many as chunks in the shared memory.
#[derive(Debug, Default)]
pub(crate) struct Copied(BTreeMap<Location, (BufferId, ChunkHeader)>);

impl Copied {
    /// Returns the number of chunks.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if a scraped chunk is already in its buffer. Otherwise notes it as copied.
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

    /// Returns true if a chunk to be committed is already in its buffer, and forgets it: another
    /// chunk may be at its location.
    pub(crate) fn take(&mut self, location: Location, header: ChunkHeader, target: u32) -> bool {
        let known = self.0.remove(&location);
        known.is_some_and(|(buffer, known)| u32::from(buffer) == target && known == header)
    }
}
