//! Ids of writers and producers that are assigned again.
//!
//! A writer id belongs to one writer after another, each of which numbers its chunks from any
//! value. The service tells the buffer when a writer ends and another begins, so that their chunks
//! are kept apart: chunks of the new writer are not mistaken for late ones of the old, and no
//! packet contains fragments of both.

use super::sequence::Sequence;
use super::{Identity, ProducerId, TraceBuffer, WriterId};

/// The largest number of retired sequences that are kept apart from their successors. A correct
/// producer reuses an id after 32767 others and so stays far below. A hostile one could otherwise
/// make them use more memory than the buffer.
const MAX_RETIRED: usize = 4096;

impl TraceBuffer {
    /// Notes that a writer has ended. Late chunks are still its own until
    /// [`writer_began`](Self::writer_began) assigns its id to another.
    pub fn writer_ended(&mut self, producer: ProducerId, writer: WriterId) {
        if let Some(slot) = self.sequences.slot(producer, writer) {
            self.end(slot);
        }
    }

    /// Notes that all writers of a producer have ended. If another producer gets its id, that one
    /// has another identity, or its writers are announced.
    pub fn producer_gone(&mut self, producer: ProducerId) {
        for slot in self.sequences.of_producer(producer) {
            self.end(slot);
        }
    }

    /// Notes that a writer begins. The stored chunks of an ended writer with the same id remain
    /// readable, but its unfinished packet is lost.
    pub fn writer_began(&mut self, producer: ProducerId, writer: WriterId) {
        if let Some(slot) = self.sequences.slot(producer, writer)
            && self.sequences.get(slot).is_some_and(|one| one.ended)
        {
            self.begin_anew(slot, MAX_RETIRED);
        }
    }

    /// Returns the slot for a chunk of a producer with this identity, given the current slot of its
    /// ids: a new slot if these belonged to another producer before.
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

    /// Returns the slot for new chunks: the same one if there are already `limit` retired
    /// sequences.
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
