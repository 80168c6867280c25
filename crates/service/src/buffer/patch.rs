//! Patching sizes into chunks that are already in the buffer.

use super::read::Link;
use super::ring::{Record, flag};
use super::sequence::Entry;
use super::{ProducerId, TraceBuffer, WriterId, fragment};

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
        let index = sequence.find(chunk_id)?;
        let &Entry { at, last, .. } = sequence.chunks.get(index)?;
        let mut header = self.ring.chunk(at)?;
        let payload = self.ring.payload(at, 0, header.len.into());
        // Nearly always in the last fragment, as what does not end in a chunk has sizes to be
        // filled in.
        let harmless = |&Patch { offset, data }: &Patch| {
            let (offset, count) = (offset as usize, data.len());
            let is_in_last = offset >= last.into() && offset.saturating_add(count) <= payload.len();
            is_in_last || fragment::is_inside_one(payload, offset, count)
        };
        if !header.has(flag::CHANGED) && !patches.iter().all(harmless) {
            header.flags |= flag::CHANGED;
            self.ring.set(at, Record::Chunk(header));
        }
        let payload = self.ring.payload_mut(at, header.len.into());
        let mut applied = 0;
        for patch in patches {
            let offset = patch.offset as usize;
            let place = offset
                .checked_add(4)
                .and_then(|end| payload.get_mut(offset..end));
            let Some(place) = place else { break };
            place.copy_from_slice(&patch.data);
            applied += 1;
        }
        self.check_chain(slot, index, at);
        if applied < patches.len() {
            return None;
        }
        self.stats.patches_succeeded += patches.len() as u64;
        if !more {
            header.flags &= !flag::NEEDS_PATCHING;
            self.ring.set(at, Record::Chunk(header));
        }
        self.wake(slot);
        Some(())
    }

    /// After a change of the chunk at `index`: whether it is still a link of a packet around it,
    /// see [`chained`](super::sequence::Sequence::chained).
    fn check_chain(&mut self, slot: u32, index: usize, at: u32) {
        let chained = self.sequences.get(slot).map_or(0, |one| one.chained);
        if (1..=chained as usize).contains(&index)
            && self.link(at) != Link::Continues
            && let Some(sequence) = self.sequences.get_mut(slot)
        {
            sequence.chained = index as u32 - 1;
        }
    }
}
