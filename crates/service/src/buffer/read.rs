//! Reads packets, and removes chunks that are overwritten.

use super::Loss;
use super::fragment::{self, Fragment, Next, Part};
use super::packet::{Packet, Piece};
use super::ring::{ChunkHeader, Record, flag};
use super::sequence::Consumed;
use super::{Semantics, TraceBuffer};

/// A position in the ring, with the number of laps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cursor {
    pub(super) lap: u64,
    pub(super) at: u32,
}

impl Cursor {
    pub(super) fn next_lap(self) -> Self {
        Self {
            lap: self.lap + 1,
            at: 0,
        }
    }
}

/// A chunk that is partly read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Current {
    slot: u32,
    at: u32,
    header: ChunkHeader,
}

/// The reason for consuming fragments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// A reader wants them.
    Read,
    /// Their memory is to be reused.
    Erase,
}

/// The result of reassembling a packet.
enum Reassembly {
    Complete,
    NotEnough,
    Lost(Loss),
}

/// The role of a chunk for a packet that begins before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    /// It contains a piece of the packet and nothing else, or is empty.
    Continues,
    /// It contains the end of the packet.
    Ends,
    /// It is not complete yet.
    Waits,
    /// It does not continue the packet.
    Broken(Loss),
}

impl TraceBuffer {
    /// Returns the next packet, and consumes it; `None` if no complete packet is left for now.
    ///
    /// Reading can stop at any time and continue later, even if chunks are written, patched or
    /// overwritten in between.
    pub fn read_next(&mut self) -> Option<Packet<'_>> {
        let slot = match self.next_of_current() {
            Some(slot) => slot,
            None => self.find_packet()?,
        };
        let semantics = self.options.semantics;
        let sequence = self.sequences.get_mut(slot)?;
        let mut loss = std::mem::take(&mut sequence.loss);
        let first = !std::mem::replace(&mut sequence.returned, true);
        if semantics == Semantics::V1 {
            loss = u32::from(loss != 0 || first);
        }
        Some(Packet {
            producer: sequence.producer,
            writer: sequence.writer,
            identity: sequence.identity,
            loss: Loss::from_bits(loss),
            ring: &self.ring,
            pieces: &self.pieces,
        })
    }

    /// The fast path: another whole packet of the chunk of the last packet.
    /// [`find_packet`](Self::find_packet) handles all other cases.
    fn next_of_current(&mut self) -> Option<u32> {
        let Current { slot, at, header } = self.current.as_mut()?;
        let payload = self.ring.payload(*at, 0, header.len.into());
        match fragment::next(header, payload) {
            Next::Fragment(found) if found.part == Part::Whole && found.len > 0 => {
                let (slot, piece) = (*slot, Piece::new(*at, &found));
                header.unread = header.unread.saturating_sub(piece.total);
                let header = *header;
                self.pieces.clear();
                self.pieces.push(piece);
                self.consumed(piece.at, header, Mode::Read);
                Some(slot)
            }
            _ => {
                self.current = None;
                None
            }
        }
    }

    /// Puts the pieces of the next packet into `self.pieces`, and returns the slot of its sequence.
    fn find_packet(&mut self) -> Option<u32> {
        match self.options.semantics {
            Semantics::V1 => self.find_in_turn(),
            Semantics::V2 => self.find_in_ring(),
        }
    }

    /// Finds the next packet by producer, then by writer.
    fn find_in_turn(&mut self) -> Option<u32> {
        while let Some(slot) = self.sequences.first_turn() {
            if self.advance(slot, None, Mode::Read) {
                self.set_current(slot);
                return Some(slot);
            }
            self.sequences.end_turn(slot);
        }
        None
    }

    /// Finds the next packet approximately in the order of writing.
    fn find_in_ring(&mut self) -> Option<u32> {
        while let Some(&slot) = self.ready.front() {
            if self.advance(slot, None, Mode::Read) {
                self.set_current(slot);
                return Some(slot);
            }
            self.ready.pop_front();
            if let Some(sequence) = self.sequences.get_mut(slot) {
                sequence.ready = false;
            }
        }
        loop {
            let at = self.read_position()?;
            if let Record::Chunk(header) = self.ring.record(at) {
                let stalled = self
                    .sequences
                    .get(header.slot)
                    .is_none_or(|sequence| sequence.stalled);
                if !stalled && self.advance(header.slot, Some(at), Mode::Read) {
                    self.set_current(header.slot);
                    return Some(header.slot);
                }
            }
            self.read.at = at + self.ring.record(at).units();
        }
    }

    /// Notes the position after a packet of this sequence.
    fn set_current(&mut self, slot: u32) {
        self.current = self
            .front(slot)
            .filter(|(_, header)| header.unread > 0)
            .map(|(at, header)| Current { slot, at, header });
    }

    /// Returns the position of the next read; `None` once all records have been visited.
    fn read_position(&mut self) -> Option<u32> {
        if self.read == self.write {
            return None;
        }
        if self.read.lap < self.write.lap {
            let oldest = Cursor {
                lap: self.write.lap - 1,
                at: self.write.at,
            };
            if self.read.lap < oldest.lap || self.read.at < oldest.at {
                // The write position has overtaken the read position.
                self.read = oldest;
            }
            if self.read.at >= self.ring.used() {
                self.read = self.read.next_lap();
                return self.read_position();
            }
        }
        Some(self.read.at)
    }

    /// Puts the pieces of the next packet of a sequence into `self.pieces`; with `target`, only of
    /// chunks up to that one. Returns false if there is none; in [`Mode::Erase`], all those chunks
    /// are then gone.
    pub(super) fn advance(&mut self, slot: u32, target: Option<u32>, mode: Mode) -> bool {
        while let Some((at, header)) = self.front(slot) {
            let payload = self.ring.payload(at, 0, header.len.into());
            if header.unread == header.len && mode == Mode::Read {
                touch(payload);
                // The next chunk is most likely there if it is as large.
                let next = self.next_record(slot, at, &header);
                self.ring.prefetch(next, header.units());
            }
            match fragment::next(&header, payload) {
                Next::Fragment(found) => {
                    if self.take(slot, at, header, &found, mode) {
                        return true;
                    }
                    if mode == Mode::Read && self.is_stalled(slot) {
                        return false;
                    }
                    continue;
                }
                Next::Corrupt => self.add_loss(slot, Loss::CHUNK_CORRUPTED),
                Next::Empty => {}
            }
            if mode == Mode::Read && header.has(flag::INCOMPLETE) && !self.is_retired(slot) {
                self.stall(slot);
                return false;
            }
            self.judge_gap(slot, &header);
            self.erase_front(slot);
            if target == Some(at) {
                return false;
            }
        }
        false
    }

    /// Returns the position of the record that is read after a sequence's first.
    fn next_record(&self, slot: u32, at: u32, header: &ChunkHeader) -> u32 {
        let chunk_of =
            |slot: u32, index: usize| Some(self.sequences.get(slot)?.chunks.get(index)?.at);
        let next = match self.options.semantics {
            Semantics::V1 => {
                chunk_of(slot, 1).or_else(|| chunk_of(self.sequences.turn_after(slot)?, 0))
            }
            Semantics::V2 => None,
        };
        next.unwrap_or(at + header.units())
    }

    /// Erases the rest of the chunk at `at`, if it is its sequence's first and its sizes are
    /// unchanged since it was stored, without visiting each packet. Returns true if packets were
    /// lost; [`advance`](Self::advance) handles all other chunks.
    pub(super) fn erase_at_once(&mut self, slot: u32, at: u32) -> bool {
        let Some((header, first)) = self.next_of_front(slot, at) else {
            return false;
        };
        let orphan = matches!(first.part, Part::Continue | Part::End);
        if orphan {
            self.take(slot, at, header, &first, Mode::Erase);
        }
        let Some((header, first)) = self.next_of_front(slot, at) else {
            return false;
        };
        if first.part != Part::Whole || first.len == 0 {
            return false;
        }
        self.pieces.clear();
        self.pieces.push(Piece {
            total: header.unread,
            ..Piece::new(at, &first)
        });
        let loss = if header.has(flag::LAST_CONTINUES) {
            self.reassembly_loss(slot, header)
        } else {
            Loss::NONE
        };
        self.consume_pieces(slot, header, Mode::Erase);
        if !loss.is_none() {
            self.add_loss(slot, loss);
        }
        true
    }

    /// Returns the loss to report for a packet that begins at the end of a sequence's first chunk,
    /// since the chunk is being erased.
    fn reassembly_loss(&mut self, slot: u32, header: ChunkHeader) -> Loss {
        match self.reassemble(slot, header, Mode::Erase) {
            Reassembly::Complete => {
                self.stats.readaheads_succeeded += 1;
                Loss::NONE
            }
            Reassembly::NotEnough => {
                self.stats.readaheads_failed += 1;
                Loss::OVERWRITE
            }
            Reassembly::Lost(loss) => {
                self.stats.readaheads_failed += 1;
                loss
            }
        }
    }

    /// Returns the next fragment of the chunk at `at`, if the chunk is complete, is its sequence's
    /// first, and its sizes are unchanged since it was stored.
    fn next_of_front(&self, slot: u32, at: u32) -> Option<(ChunkHeader, Fragment)> {
        let (front, header) = self.front(slot)?;
        if front != at || header.has(flag::CHANGED | flag::INCOMPLETE) {
            return None;
        }
        let payload = self.ring.payload(at, 0, header.len.into());
        match fragment::next(&header, payload) {
            Next::Fragment(found) => Some((header, found)),
            Next::Empty | Next::Corrupt => None,
        }
    }

    /// Consumes the next fragment of a sequence's first chunk. Returns true if that gave a packet.
    fn take(
        &mut self,
        slot: u32,
        at: u32,
        header: ChunkHeader,
        found: &Fragment,
        mode: Mode,
    ) -> bool {
        let piece = Piece::new(at, found);
        self.pieces.clear();
        self.pieces.push(piece);
        let loss = match found.part {
            Part::Whole => {
                self.judge_gap(slot, &header);
                self.consume(piece, header, mode);
                return found.len > 0;
            }
            Part::Continue | Part::End => Loss::ORPHAN_CONTINUATION,
            Part::Begin => match self.reassemble(slot, header, mode) {
                Reassembly::Complete => {
                    self.stats.readaheads_succeeded += 1;
                    self.consume_pieces(slot, header, mode);
                    return self.pieces.iter().any(|piece| piece.len > 0);
                }
                Reassembly::NotEnough => {
                    self.stats.readaheads_failed += 1;
                    if mode == Mode::Erase {
                        Loss::OVERWRITE
                    } else if self.is_retired(slot) {
                        Loss::REASSEMBLY_GAP
                    } else {
                        self.stall(slot);
                        return false;
                    }
                }
                Reassembly::Lost(loss) => {
                    self.stats.readaheads_failed += 1;
                    loss
                }
            },
        };
        self.consume_pieces(slot, header, mode);
        self.add_loss(slot, loss);
        false
    }

    /// Reassembles the packet that begins at the end of a sequence's first chunk. Its first piece
    /// is in `self.pieces`; the others are added, unless the packet has to wait.
    fn reassemble(&mut self, slot: u32, first: ChunkHeader, mode: Mode) -> Reassembly {
        if first.has(flag::NEEDS_PATCHING) {
            return Reassembly::NotEnough;
        }
        let Some(sequence) = self.sequences.get(slot) else {
            return Reassembly::NotEnough;
        };
        let (known, retired) = (sequence.chained, sequence.retired);
        let mut chained = known;
        let outcome = loop {
            let index = chained + 1;
            let id = first.id.wrapping_add(index);
            let Some(entry) = sequence.chunks.get(index as usize) else {
                break Reassembly::NotEnough;
            };
            if entry.id != id {
                break Reassembly::Lost(Loss::REASSEMBLY_GAP);
            }
            match self.link(entry.at) {
                Link::Continues => chained += 1,
                Link::Ends => break Reassembly::Complete,
                Link::Waits => break Reassembly::NotEnough,
                Link::Broken(loss) => break Reassembly::Lost(loss),
            }
        };
        self.examined += u64::from(chained - known) + 1;
        let ends = matches!(outcome, Reassembly::Complete);
        if !matches!(outcome, Reassembly::NotEnough) || mode == Mode::Erase || retired {
            self.collect(slot, chained + u32::from(ends));
        } else if let Some(sequence) = self.sequences.get_mut(slot) {
            sequence.chained = chained;
        }
        outcome
    }

    /// Returns the role of the chunk at `at` for a packet that begins before it.
    pub(super) fn link(&self, at: u32) -> Link {
        let Some(header) = self.ring.chunk(at) else {
            return Link::Waits;
        };
        let payload = self.ring.payload(at, 0, header.len.into());
        match fragment::next(&header, payload) {
            Next::Corrupt => Link::Broken(Loss::CHUNK_CORRUPTED),
            // The chunk may get more fragments.
            Next::Empty if header.has(flag::INCOMPLETE) => Link::Waits,
            Next::Empty => Link::Continues,
            Next::Fragment(found) => match found.part {
                Part::Continue if header.has(flag::NEEDS_PATCHING) => Link::Waits,
                Part::Continue => Link::Continues,
                Part::End => Link::Ends,
                Part::Begin | Part::Whole => Link::Broken(Loss::REASSEMBLY_BROKEN_CHAIN),
            },
        }
    }

    /// Adds the next piece of each of the `count` chunks after a sequence's first.
    fn collect(&mut self, slot: u32, count: u32) {
        let Some(sequence) = self.sequences.get(slot) else {
            return;
        };
        for entry in sequence.chunks.after_first().take(count as usize) {
            self.examined += 1;
            let Some(header) = self.ring.chunk(entry.at) else {
                continue;
            };
            let payload = self.ring.payload(entry.at, 0, header.len.into());
            if let Next::Fragment(found) = fragment::next(&header, payload) {
                self.pieces.push(Piece::new(entry.at, &found));
            }
        }
    }

    /// Marks all of `self.pieces` as read. The first piece is in the sequence's first chunk, which
    /// has this header.
    fn consume_pieces(&mut self, slot: u32, first: ChunkHeader, mode: Mode) {
        self.judge_gap(slot, &first);
        for index in 0..self.pieces.len() {
            if let Some(&piece) = self.pieces.get(index)
                && let Some(header) = self.ring.chunk(piece.at)
            {
                self.consume(piece, header, mode);
            }
        }
    }

    /// Marks the next fragment of a chunk as read.
    fn consume(&mut self, piece: Piece, mut header: ChunkHeader, mode: Mode) {
        header.unread = header.unread.saturating_sub(piece.total);
        self.consumed(piece.at, header, mode);
    }

    /// Stores the header of a chunk after one of its fragments was consumed.
    fn consumed(&mut self, at: u32, header: ChunkHeader, mode: Mode) {
        self.ring.set(at, Record::Chunk(header));
        if header.unread > 0 {
            return;
        }
        match mode {
            Mode::Read => {
                self.stats.chunks_read += 1;
                self.stats.bytes_read += header.bytes();
            }
            Mode::Erase => {
                self.stats.chunks_overwritten += 1;
                self.stats.bytes_overwritten += header.bytes();
            }
        }
    }

    /// Reports a gap before a sequence's first chunk, which has this header. This happens at the
    /// first use of the chunk: until then, the missing chunk, or the rest of a scraped one, may
    /// still come; after that it is too late.
    pub(super) fn judge_gap(&mut self, slot: u32, first: &ChunkHeader) {
        let Some(sequence) = self.sequences.get_mut(slot) else {
            return;
        };
        match sequence.consumed {
            Some(last) if last.incomplete && first.id == last.id => return,
            Some(last) if !last.incomplete && first.id == last.id.wrapping_add(1) => return,
            Some(_) => sequence.loss |= (Loss::READ_GAP | Loss::PRESENT).bits(),
            None => {}
        }
        sequence.consumed = Some(Consumed {
            id: first.id.wrapping_sub(1),
            len: 0,
            incomplete: false,
            aborted: false,
        });
    }

    /// Replaces a sequence's first chunk with padding.
    pub(super) fn erase_front(&mut self, slot: u32) {
        let Some((at, header)) = self.front(slot) else {
            return;
        };
        let units = header.units();
        self.ring.set(at, Record::Padding { units });
        self.report_abort(&header);
        let last = Consumed {
            id: header.id,
            len: header.len,
            incomplete: header.has(flag::INCOMPLETE),
            aborted: header.has(flag::ABORTED),
        };
        self.sequences.pop(slot, last);
    }

    /// If the writer aborted the packet after those of this chunk, reports a loss with the next
    /// packet, and not with those before, which are complete.
    pub(super) fn report_abort(&mut self, header: &ChunkHeader) {
        if header.has(flag::ABORTED) {
            self.add_loss(header.slot, Loss::WRITER_ABORT);
        }
    }

    fn front(&self, slot: u32) -> Option<(u32, ChunkHeader)> {
        let at = self.sequences.get(slot)?.chunks.front()?.at;
        Some((at, self.ring.chunk(at)?))
    }

    pub(super) fn add_loss(&mut self, slot: u32, loss: Loss) {
        if let Some(sequence) = self.sequences.get_mut(slot) {
            sequence.loss |= (loss | Loss::PRESENT).bits();
        }
    }

    fn stall(&mut self, slot: u32) {
        if let Some(sequence) = self.sequences.get_mut(slot) {
            sequence.stalled = true;
        }
    }

    /// Returns true if no more chunks can come to this sequence.
    fn is_retired(&self, slot: u32) -> bool {
        self.sequences
            .get(slot)
            .is_some_and(|sequence| sequence.retired)
    }

    fn is_stalled(&self, slot: u32) -> bool {
        self.sequences
            .get(slot)
            .is_some_and(|sequence| sequence.stalled)
    }
}

/// Loads the bytes into the cache, all at once. Parsing fragment by fragment would wait for memory
/// at each, since each size determines the position of the next.
pub(super) fn touch(payload: &[u8]) {
    let sum = payload.iter().step_by(64).fold(0, |sum, byte| sum ^ byte);
    std::hint::black_box(sum);
}
