//! Numbers of writers and producers that come to belong to others.
//!
//! A writer id stands for one writer after another, and each numbers its chunks from any value. The
//! service tells the buffer when a writer has left and another begins, so that their chunks are
//! kept apart: the new one's chunks are not taken for old ones that arrive late, and no packet is
//! made of fragments of both.

use super::sequence::Sequence;
use super::{Identity, ProducerId, TraceBuffer, WriterId};

/// At most this many sequences whose number is another writer's by now are kept apart from their
/// successors. A correct producer, which gives a number out again after 32767 others, comes nowhere
/// near; with a hostile one memory for them would grow beyond the buffer's.
const MAX_RETIRED: usize = 4096;

impl TraceBuffer {
    /// Says that a writer has ended. Chunks that come late are still its own, until
    /// [`writer_began`](Self::writer_began) gives the number to another.
    pub fn writer_ended(&mut self, producer: ProducerId, writer: WriterId) {
        if let Some(slot) = self.sequences.slot(producer, writer) {
            self.end(slot);
        }
    }

    /// Says that all writers of a producer have ended. If the number becomes another producer's,
    /// that one has another identity or says that its writers begin.
    pub fn producer_gone(&mut self, producer: ProducerId) {
        for slot in self.sequences.of_producer(producer) {
            self.end(slot);
        }
    }

    /// Says that a writer begins. If one that had this number ended, its stored chunks remain to be
    /// read, but a packet it did not finish is lost.
    pub fn writer_began(&mut self, producer: ProducerId, writer: WriterId) {
        if let Some(slot) = self.sequences.slot(producer, writer)
            && self.sequences.get(slot).is_some_and(|one| one.ended)
        {
            self.begin_anew(slot, MAX_RETIRED);
        }
    }

    /// The slot for a chunk of a producer of this identity, given the slot of its numbers: another
    /// one if the producer that had them before is gone.
    pub(super) fn slot_of_successor(&mut self, slot: u32, identity: Identity) -> u32 {
        let is_another = |one: &Sequence| one.ended && one.identity != identity;
        if !self.sequences.get(slot).is_some_and(is_another) {
            return slot;
        }
        let slot = self.begin_anew(slot, usize::MAX);
        if let Some(sequence) = self.sequences.get_mut(slot) {
            sequence.identity = identity;
        }
        slot
    }

    fn end(&mut self, slot: u32) {
        if let Some(sequence) = self.sequences.get_mut(slot) {
            sequence.ended = true;
        }
    }

    /// Returns the slot for new chunks: the same if there are `limit` others on their way out
    /// already.
    fn begin_anew(&mut self, slot: u32, limit: usize) -> u32 {
        self.current = None;
        let Some(sequence) = self.sequences.get_mut(slot) else {
            return slot;
        };
        sequence.ended = false;
        if sequence.chunks.is_empty() {
            sequence.consumed = None;
            return slot;
        }
        if self.sequences.retired() >= limit {
            return slot;
        }
        let Some(next) = self.sequences.retire(slot) else {
            return slot;
        };
        // Incomplete packets of the old writer cannot be completed any more.
        self.wake(slot);
        next
    }
}
