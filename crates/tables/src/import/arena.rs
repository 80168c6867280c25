//! The bytes of waiting packets.

use std::collections::VecDeque;
use std::sync::Arc;

use super::head::Head;
use ferretto_wire::{MAX_VARINT_LENGTH, decode_varint, encode_varint};

/// A range of bytes in a batch of packets, preceded by its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    batch: u32,
    start: u32,
}

/// The number of bytes in a batch.
const BATCH_BYTES: usize = 1 << 20;

/// Packets in the order of the file, each preceded by its length.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    /// The offsets of packets in the batch and in the file.
    packets: Vec<(u32, u64)>,
    /// The headers of packets, if they were read.
    heads: Vec<Head>,
}

impl Batch {
    /// Returns a batch with one packet.
    pub(crate) fn of_one(packet: &[u8], offset: u64) -> Self {
        let mut batch = Self {
            bytes: Vec::with_capacity(packet.len() + MAX_VARINT_LENGTH),
            packets: Vec::with_capacity(1),
            heads: Vec::new(),
        };
        batch.push(packet, offset);
        batch
    }

    /// Appends a packet with this offset in the file.
    pub(crate) fn push(&mut self, packet: &[u8], offset: u64) {
        if self.bytes.capacity() == 0 {
            self.bytes.reserve_exact(BATCH_BYTES.max(packet.len() + 10));
        }
        self.packets.push((self.bytes.len() as u32, offset));
        let mut length = [0; MAX_VARINT_LENGTH];
        let digits = encode_varint(packet.len() as u64, &mut length);
        self.bytes.extend_from_slice(&length[..digits]);
        self.bytes.extend_from_slice(packet);
    }

    /// Reads the header of the last packet.
    pub(crate) fn note_head(&mut self, packet: &[u8]) {
        self.heads.push(Head::read(packet));
    }

    /// Returns true if a packet of this size should go into the next batch.
    pub(crate) fn is_full_for(&self, bytes: usize) -> bool {
        !self.packets.is_empty() && self.bytes.len() + bytes + 10 > BATCH_BYTES
    }

    /// Returns true if there are no packets.
    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
}

/// Batches with packets that wait to be parsed.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    batches: VecDeque<Kept>,
    /// The number of the first batch.
    first: u32,
    /// The number of freed bytes that the allocator may still hold.
    freed: usize,
}

/// The number of freed bytes after which memory is returned to the system. Packets are freed while
/// tables grow, but allocators keep their memory for other packets.
const GIVEN_BACK: usize = 16 << 20;

#[derive(Debug, Default)]
struct Kept {
    bytes: Arc<Vec<u8>>,
    packets: Vec<(u32, u64)>,
    heads: Vec<Head>,
    /// The number of events that refer to the batch, plus one until it is tokenized.
    waiting: u32,
}

impl Arena {
    /// Adds a batch, and returns its number. The batch is kept at least until
    /// [`tokenized`](Self::tokenized).
    pub(crate) fn add(&mut self, batch: Batch) -> u32 {
        self.batches.push_back(Kept {
            bytes: Arc::new(batch.bytes),
            packets: batch.packets,
            heads: batch.heads,
            waiting: 1,
        });
        self.first + self.batches.len() as u32 - 1
    }

    /// Returns the number of packets in a batch.
    pub(crate) fn packets(&self, batch: u32) -> usize {
        self.kept(batch).map_or(0, |kept| kept.packets.len())
    }

    /// Returns a packet of a batch, and its offset in the file.
    pub(crate) fn packet(&self, batch: u32, index: usize) -> Option<(Span, u64)> {
        let (start, offset) = *self.kept(batch)?.packets.get(index)?;
        Some((Span { batch, start }, offset))
    }

    /// Returns the header of a packet of a batch, if it was read.
    pub(super) fn head(&self, batch: u32, index: usize) -> Option<Head> {
        self.kept(batch)?.heads.get(index).copied()
    }

    /// Returns the bytes of a span.
    #[inline]
    pub(crate) fn bytes(&self, span: Span) -> &[u8] {
        self.kept(span.batch)
            .map_or(&[], |kept| span.of(&kept.bytes))
    }

    /// Returns the batch of a span, to read it on other threads.
    pub(crate) fn share(&self, span: Span) -> Arc<Vec<u8>> {
        let kept = self.kept(span.batch);
        kept.map_or_else(Arc::default, |kept| kept.bytes.clone())
    }

    /// Returns the span of a length-delimited field in another span. `part` must be a part of the
    /// bytes of `whole`, as returned by a field reader.
    #[inline]
    pub(crate) fn part(&self, whole: Span, part: &[u8]) -> Span {
        let Some(kept) = self.kept(whole.batch) else {
            return Span::EMPTY;
        };
        let bytes = &**kept.bytes;
        // Both are parts of one batch, so the difference of their addresses is an offset.
        let offset = part.as_ptr().addr().wrapping_sub(bytes.as_ptr().addr());
        if part.is_empty() || offset == 0 || offset > bytes.len() {
            return Span::EMPTY;
        }
        let length = match part.len() {
            short @ ..0x80 if usize::from(bytes[offset - 1]) == short => 1,
            length => length_before(bytes, offset, length),
        };
        Span {
            batch: whole.batch,
            start: (offset - length) as u32,
        }
    }

    /// Adds references of events to parts of the span.
    #[inline]
    pub(crate) fn keep(&mut self, span: Span, events: u32) {
        if let Some(kept) = self.kept_mut(span.batch) {
            kept.waiting += events;
        }
    }

    /// Removes the reference of an event to the span.
    #[inline]
    pub(crate) fn release(&mut self, span: Span) {
        self.release_batch(span.batch);
    }

    fn release_batch(&mut self, batch: u32) {
        if let Some(kept) = self.kept_mut(batch) {
            kept.waiting = kept.waiting.saturating_sub(1);
            if kept.waiting == 0 {
                let freed = kept.bytes.capacity();
                kept.bytes = Arc::default();
                self.give_back(freed);
            }
        }
    }

    fn give_back(&mut self, freed: usize) {
        self.freed += freed;
        if self.freed >= GIVEN_BACK {
            self.freed = 0;
            ferretto_malloc::release();
        }
    }

    /// Marks a batch as tokenized. Frees it unless events refer to it. Returns its lists, without
    /// entries.
    pub(crate) fn tokenized(&mut self, batch: u32) -> Batch {
        let mut lists = Batch::default();
        if let Some(kept) = self.kept_mut(batch) {
            lists.packets = std::mem::take(&mut kept.packets);
            lists.heads = std::mem::take(&mut kept.heads);
            lists.packets.clear();
            lists.heads.clear();
        }
        self.release_batch(batch);
        self.shrink();
        lists
    }

    /// Returns the memory in bytes.
    pub(crate) fn memory(&self) -> usize {
        let bytes = |kept: &Kept| kept.bytes.capacity();
        self.batches.iter().map(bytes).sum()
    }

    /// Removes the first batches without references.
    pub(crate) fn shrink(&mut self) {
        while self.batches.len() > 1 && self.batches.front().is_some_and(|kept| kept.waiting == 0) {
            self.batches.pop_front();
            self.first += 1;
        }
    }

    #[inline]
    fn kept(&self, batch: u32) -> Option<&Kept> {
        self.batches.get(batch.wrapping_sub(self.first) as usize)
    }

    #[inline]
    fn kept_mut(&mut self, batch: u32) -> Option<&mut Kept> {
        self.batches
            .get_mut(batch.wrapping_sub(self.first) as usize)
    }
}

/// Returns the number of bytes of the encoded length before an offset. Writers may reserve more
/// bytes than necessary.
fn length_before(bytes: &[u8], offset: usize, length: usize) -> usize {
    let fits = |digits: &usize| {
        let start = offset.checked_sub(*digits);
        let field = start.and_then(|start| bytes.get(start..offset));
        field.and_then(decode_varint) == Some((length as u64, *digits))
    };
    (1..=10).find(fits).unwrap_or(0)
}

impl Span {
    /// Returns the number of its batch.
    #[inline]
    pub(crate) fn batch(self) -> u32 {
        self.batch
    }

    /// Returns its bytes in those of its batch.
    #[inline]
    pub(crate) fn of(self, batch: &[u8]) -> &[u8] {
        let rest = batch.get(self.start as usize..).unwrap_or_default();
        let Some((length, digits)) = decode_varint(rest) else {
            return &[];
        };
        let end = digits.saturating_add(length as usize);
        rest.get(digits..end).unwrap_or_default()
    }

    /// Returns the distance to another span.
    #[inline]
    pub(crate) fn difference(self, other: Self) -> (i32, i64) {
        let batches = self.batch.wrapping_sub(other.batch) as i32;
        (batches, i64::from(self.start) - i64::from(other.start))
    }

    /// Returns the span at this distance.
    #[inline]
    pub(crate) fn plus(self, batches: i32, bytes: i64) -> Self {
        Self {
            batch: self.batch.wrapping_add(batches as u32),
            start: (i64::from(self.start) + bytes) as u32,
        }
    }

    /// The empty span.
    pub(crate) const EMPTY: Self = Self {
        batch: u32::MAX,
        start: 0,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_parts_have_the_bytes_of_the_part() {
        let mut batch = Batch::default();
        batch.push(&[1, 2, 3], 0);
        // A field of three bytes, with its length encoded in two bytes instead of one.
        batch.push(&[0x0a, 0x83, 0x00, 7, 8, 9], 5);
        let mut arena = Arena::default();
        let number = arena.add(batch);
        let (span, offset) = arena.packet(number, 1).expect("packet");
        assert_eq!(offset, 5);
        let part = &arena.bytes(span)[3..];
        let part = arena.part(span, part);
        assert_eq!(arena.bytes(part), [7, 8, 9]);
        assert!(arena.bytes(Span::EMPTY).is_empty());
        arena.keep(part, 1);
        arena.tokenized(number);
        assert_eq!(arena.bytes(part), [7, 8, 9]);
        arena.release(part);
        assert!(arena.bytes(part).is_empty());
    }
}
