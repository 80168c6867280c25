//! Patches sizes in chunks that are already in the buffer.

use super::entries::Entry;
use super::read::Link;
use super::ring::flag;
use super::{ProducerId, Semantics, TraceBuffer, WriterId};

/// Four bytes to write into a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patch {
    /// The offset from the start of the chunk's payload.
    pub offset: u32,
    /// The bytes to write.
    pub data: [u8; 4],
}

impl TraceBuffer {
    /// Applies patches to a chunk of this producer and writer. If `more` is false, the chunk is
    /// completely patched, and packets that waited for it can be read.
    ///
    /// Returns true if the chunk exists and all patches are inside it. Otherwise, the patches
    /// before the first invalid one are applied, and `patches_failed` grows by one.
    pub fn try_patch(
        &mut self,
        producer: ProducerId,
        writer: WriterId,
        chunk_id: u32,
        patches: &[Patch],
        more: bool,
    ) -> bool {
        self.current = None;
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
        let (index, Entry { at, last, .. }) = sequence.find(chunk_id)?;
        // If no reader has reached the chunk, only the header and the bytes change.
        let is_link = (1..=sequence.chained as usize).contains(&index);
        let is_awake =
            !sequence.stalled && (sequence.ready || self.options.semantics == Semantics::V2);
        let header = self.ring.chunk(at)?;
        let payload = self.ring.payload_mut(at, header.len.into());
        let mut flags = if more {
            header.flags
        } else {
            header.flags & !flag::NEEDS_PATCHING
        };
        let mut is_whole = true;
        for patch in patches {
            let offset = patch.offset as usize;
            // Correct producers patch the last fragment, which continues in the next chunk. A patch
            // before it may change the sizes of fragments.
            if offset < last.into() {
                flags |= flag::CHANGED;
            }
            let bytes = payload.get_mut(offset..);
            let Some(bytes) = bytes.and_then(<[u8]>::first_chunk_mut) else {
                flags |= flag::CHANGED | header.flags;
                is_whole = false;
                break;
            };
            *bytes = patch.data;
        }
        if flags != header.flags {
            self.ring.set_flags(at, flags);
        }
        if is_link {
            self.check_chain(slot, index, at);
        }
        if !is_whole {
            return None;
        }
        self.stats.patches_succeeded += patches.len() as u64;
        if !is_awake {
            self.wake(slot);
        }
        Some(())
    }

    /// Checks whether the changed chunk at `index` is still a link of a packet around it; see
    /// [`chained`](super::sequence::Sequence::chained).
    fn check_chain(&mut self, slot: u32, index: usize, at: u32) {
        if self.link(at) != Link::Continues
            && let Some(sequence) = self.sequences.get_mut(slot)
        {
            sequence.chained = index as u32 - 1;
        }
    }
}
