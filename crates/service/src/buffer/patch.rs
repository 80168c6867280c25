//! Patching sizes into chunks that are already in the buffer.

use super::ring::{Record, flag};
use super::{ProducerId, TraceBuffer, WriterId};

/// Four bytes to be put into a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patch {
    /// Where, from the start of the chunk's payload.
    pub offset: u32,
    /// What.
    pub data: [u8; 4],
}

impl TraceBuffer {
    /// Applies patches to a chunk of this producer and writer. With `more` false the chunk counts
    /// as patched completely, and what waited for that can be read.
    ///
    /// Returns whether the chunk was there and all patches fell inside it. If not, those before the
    /// first bad one have been applied, and `patches_failed` is one more.
    pub fn try_patch(
        &mut self,
        producer: ProducerId,
        writer: WriterId,
        chunk_id: u32,
        patches: &[Patch],
        more: bool,
    ) -> bool {
        let applied = self.patch(producer, writer, chunk_id, patches, more);
        if applied.is_none() {
            self.stats.patches_failed += 1;
        }
        applied.is_some()
    }

    fn patch(
        &mut self,
        producer: ProducerId,
        writer: WriterId,
        chunk_id: u32,
        patches: &[Patch],
        more: bool,
    ) -> Option<()> {
        if self.read_only {
            return None;
        }
        let slot = self.sequences.slot(producer, writer)?;
        let sequence = self.sequences.get(slot)?;
        let at = sequence.chunks.get(sequence.find(chunk_id)?)?.at;
        let mut header = self.ring.chunk(at)?;
        if !patches.is_empty() {
            header.flags |= flag::CHANGED;
            self.ring.set(at, Record::Chunk(header));
        }
        let payload = self.ring.payload_mut(at, header.len.into());
        for patch in patches {
            let offset = patch.offset as usize;
            payload
                .get_mut(offset..offset.checked_add(4)?)?
                .copy_from_slice(&patch.data);
        }
        self.stats.patches_succeeded += patches.len() as u64;
        if !more {
            header.flags &= !flag::NEEDS_PATCHING;
            self.ring.set(at, Record::Chunk(header));
        }
        self.wake(slot);
        Some(())
    }
}
