//! Stores chunks, and makes space for them.

use super::Loss;
use super::entries::Entry;
use super::fragment::{Measure, measure};
use super::read::Mode;
use super::ring::{ChunkHeader, Record, bytes, flag, units_for};
use super::sequence::ChunkIndex;
use super::{Chunk, Policy, Semantics, TraceBuffer};

impl TraceBuffer {
    /// Prefetches the records that a chunk with this payload will replace.
    #[inline]
    pub fn prefetch(&self, payload: usize) {
        self.ring.prefetch(self.write.at, units_for(payload) + 1);
    }

    /// Stores a chunk. Problems with it only appear in the counters.
    pub fn copy_chunk(&mut self, chunk: &Chunk<'_>) {
        self.current = None;
        if self.read_only || (self.sealed && self.options.semantics == Semantics::V2) {
            self.stats.chunks_discarded += 1;
            return;
        }
        let mut flags = chunk.flags & flag::PRODUCER;
        let mut count = chunk.fragments;
        if !chunk.complete {
            flags |= flag::INCOMPLETE;
            if count > 0 {
                // The writer has not finished the last fragment, which these flags describe.
                count -= 1;
                flags &= !(flag::LAST_CONTINUES | flag::NEEDS_PATCHING);
            }
        }
        let Ok(reserved) = u16::try_from(chunk.payload.len()) else {
            self.stats.abi_violations += 1;
            return;
        };
        let found = measure(chunk.payload, count);
        self.stats.abi_violations += u64::from(found.violation);
        if found.non_empty {
            flags |= flag::NON_EMPTY;
        }
        if found.aborted {
            flags |= flag::ABORTED;
        }
        // It is not longer than the payload, so it fits.
        let len = found.len as u16;
        let header = ChunkHeader {
            id: chunk.id,
            slot: 0,
            // An incomplete chunk may grow up to its size in shared memory.
            size: if chunk.complete { len } else { reserved },
            len,
            unread: len,
            flags,
        };
        if header.units() > self.ring.capacity() {
            self.stats.abi_violations += 1;
            return;
        }
        let payload = chunk.payload.get(..found.len).unwrap_or_default();
        self.store(chunk, header, payload, found);
        self.sequences.forget_idle();
    }

    fn store(
        &mut self,
        chunk: &Chunk<'_>,
        mut header: ChunkHeader,
        payload: &[u8],
        found: Measure,
    ) {
        let slot = self.slot_for(chunk, header.len);
        header.slot = slot;
        let is_news = header.has(flag::ABORTED) && !self.knows_abort(slot, header.id);
        self.stats.trace_writer_packet_loss += u64::from(is_news);
        if self.admit(slot, &header).is_none() {
            // All losses of skipped chunks were reported then.
            if !self.adopt_copy(slot, &header) {
                self.stats.chunks_discarded += 1;
            } else if is_news {
                self.report_abort(&header);
            }
            return;
        }
        let Some(sequence) = self.sequences.get(slot) else {
            return;
        };
        match sequence.index_of(header.id) {
            ChunkIndex::Free(_) => {}
            ChunkIndex::TooFar => {
                self.stats.abi_violations += 1;
                return;
            }
            ChunkIndex::Used(index) => {
                if !self.recommit(slot, index, header, payload) {
                    return;
                }
            }
        }
        if self.sealed || !self.reclaim(header.units()) {
            self.sealed = true;
            self.discard(&header);
            return;
        }
        // Checked again, since reclaiming space may have passed this chunk's position.
        let Some(read) = self.admit(slot, &header) else {
            self.fill(header.units());
            self.discard(&header);
            return;
        };
        header.unread = header.len.saturating_sub(read);
        // It is not larger than its end, so it fits.
        self.append(slot, header, payload, found.last as u16);
    }

    /// Counts a chunk that is not stored, and was not stored before.
    fn discard(&mut self, header: &ChunkHeader) {
        self.stats.chunks_discarded += 1;
        self.report_abort(header);
    }

    fn slot_for(&mut self, chunk: &Chunk<'_>, len: u16) -> u32 {
        let (slot, new) = self
            .sequences
            .slot_or_new(chunk.producer, chunk.writer, chunk.identity);
        let slot = self.slot_of_successor(slot, chunk.identity);
        if let Some(sequence) = self.sequences.get_mut(slot) {
            if new || sequence.histogram.is_none() {
                sequence.histogram = self.histograms.index(chunk.producer, chunk.writer);
            }
            if let Some(index) = sequence.histogram
                && let Some(histogram) = self.histograms.get_mut(index)
            {
                histogram.add(len.into());
            }
        }
        slot
    }

    /// Returns the number of its bytes that were already read if a chunk is still wanted; `None` if
    /// the sequence has passed it.
    fn admit(&self, slot: u32, header: &ChunkHeader) -> Option<u16> {
        let Some(last) = self.sequences.get(slot)?.consumed else {
            return Some(0);
        };
        if header.id == last.id {
            return (last.incomplete && last.len < header.len).then_some(last.len);
        }
        (header.id.wrapping_sub(last.id) < 1 << 31).then_some(0)
    }

    /// Takes over the flags of a chunk that was scraped and read before and contains nothing new.
    /// Returns false if there was no such copy, so that the chunk is lost.
    fn adopt_copy(&mut self, slot: u32, header: &ChunkHeader) -> bool {
        let sequence = self.sequences.get_mut(slot);
        let Some(last) = sequence.and_then(|sequence| sequence.consumed.as_mut()) else {
            return false;
        };
        if header.id != last.id || !last.incomplete {
            return false;
        }
        last.incomplete = header.has(flag::INCOMPLETE);
        last.aborted |= header.has(flag::ABORTED);
        true
    }

    /// Returns true if an earlier copy of a chunk already reported that the writer aborted a
    /// packet.
    fn knows_abort(&self, slot: u32, id: u32) -> bool {
        let Some(sequence) = self.sequences.get(slot) else {
            return false;
        };
        let stored = sequence
            .find(id)
            .and_then(|(_, entry)| self.ring.chunk(entry.at));
        let gone = sequence.consumed.filter(|last| last.id == id);
        stored.is_some_and(|chunk| chunk.has(flag::ABORTED))
            || gone.is_some_and(|last| last.aborted)
    }

    /// Handles a second copy of a chunk that is still in the buffer. Returns true if it has to be
    /// stored anew.
    fn recommit(&mut self, slot: u32, index: usize, new: ChunkHeader, payload: &[u8]) -> bool {
        let entry = self
            .sequences
            .get(slot)
            .and_then(|sequence| sequence.chunks.get(index).copied());
        let Some((entry, old)) = entry.and_then(|entry| Some((entry, self.ring.chunk(entry.at)?)))
        else {
            return false;
        };
        let lost_flags = old.flags & !new.flags & flag::PRODUCER;
        if new.len < old.len || new.len > old.size || lost_flags != 0 {
            self.stats.abi_violations += 1;
            return false;
        }
        let completes = old.has(flag::INCOMPLETE) && !new.has(flag::INCOMPLETE);
        let grows = new.len > old.len;
        // A copy that was read may be right before the write position, where new fragments would be
        // overwritten before they are read.
        if completes
            && grows
            && old.unread == 0
            && index == 0
            && self.options.policy == Policy::Ring
        {
            self.stats.chunks_relocated += 1;
            self.erase_front(slot);
            return true;
        }
        let mut header = old;
        header.flags |= new.flags & flag::ABORTED;
        if completes {
            header.flags &= !flag::INCOMPLETE;
            header.flags |= new.flags & flag::PRODUCER;
        }
        if grows {
            header.len = new.len;
            header.unread = old.unread + (new.len - old.len);
            header.flags |= new.flags & (flag::PRODUCER | flag::NON_EMPTY) | flag::CHANGED;
            self.ring.overwrite(entry.at, payload);
            self.stats.chunks_rewritten += 1;
        }
        if header != old {
            self.ring.set(entry.at, Record::Chunk(header));
            self.wake(slot);
        }
        false
    }

    /// Writes the chunk at the write position, where enough bytes are free.
    fn append(&mut self, slot: u32, header: ChunkHeader, payload: &[u8], last: u16) {
        let Some(sequence) = self.sequences.get(slot) else {
            return;
        };
        let ChunkIndex::Free(index) = sequence.index_of(header.id) else {
            self.fill(header.units());
            return;
        };
        if index < sequence.chunks.len() {
            self.stats.chunks_committed_out_of_order += 1;
        }
        let at = self.write.at;
        self.ring.write(at, header, payload);
        let id = header.id;
        self.sequences.insert(slot, index, Entry { id, at, last });
        self.write.at += header.units();
        self.stats.chunks_written += 1;
        self.stats.bytes_written += header.bytes();
        self.wake(slot);
    }

    /// Reclaims `units` at the write position, or at the start if they do not fit before the
    /// end. Returns false if the policy does not allow it.
    fn reclaim(&mut self, units: u32) -> bool {
        let discard = self.options.policy == Policy::Discard;
        let to_end = self.ring.capacity().saturating_sub(self.write.at);
        if units > to_end {
            let may_wrap = self.options.semantics == Semantics::V1;
            if discard && !(may_wrap && self.all_read(self.write.at, to_end)) {
                return false;
            }
            // Only the records that the new chunk replaces count: the tail is given up first.
            if discard && !self.all_read(0, units) {
                return false;
            }
            self.evict(to_end);
            self.write = self.write.next_lap();
            self.stats.write_wrap_count += 1;
        } else if discard && !self.all_read(self.write.at, units) {
            return false;
        }
        self.evict(units);
        true
    }

    /// Returns true if no unread chunk starts in this range.
    fn all_read(&self, from: u32, units: u32) -> bool {
        let mut at = from;
        while at < (from + units).min(self.ring.used()) {
            let record = self.ring.record(at);
            if matches!(record, Record::Chunk(header) if header.unread > 0) {
                return false;
            }
            at += record.units();
        }
        true
    }

    /// Empties the `units` after the write position. They are only padding afterwards, and a record
    /// starts at their end.
    fn evict(&mut self, units: u32) {
        let end = self.write.at + units;
        let mut at = self.write.at;
        while at < end.min(self.ring.used()) {
            let record = self.ring.record(at);
            match record {
                Record::Padding { .. } => {
                    self.stats.padding_bytes_cleared += bytes(record.units());
                }
                Record::Chunk(header) => self.evict_chunk(at, header),
            }
            at += record.units();
        }
        if at > end {
            let rest = at - end;
            self.ring.set(end, Record::Padding { units: rest });
            self.stats.padding_bytes_written += bytes(rest);
        }
    }

    fn evict_chunk(&mut self, at: u32, header: ChunkHeader) {
        let feeds_vm = self.feeds_vm(header.slot);
        if !feeds_vm && self.evict_untouched(at, header) {
            return;
        }
        let sequence = self.sequences.get(header.slot);
        let writer = sequence.map(|sequence| (sequence.producer, sequence.writer));
        let mut lost = !feeds_vm && self.erase_at_once(header.slot, at);
        while self.advance(header.slot, Some(at), Mode::Erase) {
            lost = true;
            if let Some((producer, _)) = writer.filter(|_| feeds_vm) {
                self.offer_to_vms(producer);
            }
        }
        if lost
            && let Some((producer, writer)) = writer
            && let Some(successor) = self.sequences.heir(header.slot, producer, writer)
        {
            self.add_loss(successor, Loss::OVERWRITE);
        }
        self.wake(header.slot);
        // A chunk leaves the ring with its sequence. This makes sure of it, since the memory is
        // reused.
        if self.ring.chunk(at).is_some() {
            let units = header.units();
            self.ring.set(at, Record::Padding { units });
        }
    }

    /// The common case, without parsing the payload: the writer's oldest chunk is completely unread
    /// and contains only whole packets.
    fn evict_untouched(&mut self, at: u32, header: ChunkHeader) -> bool {
        let special = flag::PRODUCER | flag::CHANGED;
        let simple =
            header.has(flag::NON_EMPTY) && !header.has(special) && header.unread == header.len;
        let first = self
            .sequences
            .get(header.slot)
            .and_then(|sequence| sequence.chunks.front());
        if !simple || first.is_none_or(|first| first.at != at) {
            return false;
        }
        self.judge_gap(header.slot, &header);
        self.stats.chunks_overwritten += 1;
        self.stats.bytes_overwritten += header.bytes();
        self.add_loss(header.slot, Loss::OVERWRITE);
        self.erase_front(header.slot);
        self.wake(header.slot);
        true
    }

    /// Writes padding at the write position without moving it.
    fn fill(&mut self, units: u32) {
        if self.write.at < self.ring.used() {
            let units = units.min(self.ring.used() - self.write.at);
            self.ring.set(self.write.at, Record::Padding { units });
        }
    }
}
