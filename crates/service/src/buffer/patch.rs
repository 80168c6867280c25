//! Patching sizes into chunks that are already in the buffer.

use super::read::Link;
use super::ring::flag;
use super::sequence::Entry;
use super::{ProducerId, Semantics, TraceBuffer, WriterId};

/// Four bytes to be put into a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patch {
    /// The offset from the start of the chunk's payload.
    pub offset: u32,
    /// The bytes to put there.
    pub data: [u8; 4],
}

impl TraceBuffer {
    /// Applies patches to a chunk of this producer and writer. With `more` false the chunk counts
    /// as patched completely, and packets that waited for that can be read.
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
        // Nothing but the header and the bytes changes for a chunk that no reader has come to.
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
            // Correct producers patch the last fragment, which goes on in the next chunk. Before it
            // there are sizes of fragments that may be meant.
            if offset < last.into() {
                flags |= flag::CHANGED;
            }
            let place = payload.get_mut(offset..);
            let Some(place) = place.and_then(<[u8]>::first_chunk_mut) else {
                flags |= flag::CHANGED | header.flags;
                is_whole = false;
                break;
            };
            *place = patch.data;
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

    /// After a change of the chunk at `index`: whether it is still a link of a packet around it,
    /// see [`chained`](super::sequence::Sequence::chained).
    fn check_chain(&mut self, slot: u32, index: usize, at: u32) {
        if self.link(at) != Link::Continues
            && let Some(sequence) = self.sequences.get_mut(slot)
        {
            sequence.chained = index as u32 - 1;
        }
    }
}
