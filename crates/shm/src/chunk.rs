//! A chunk owned by a writer.

use std::fmt;
use std::ptr::{self, NonNull};

use ferretto_wire::redundant_length;

use crate::layout::{ChunkFlags, ChunkHeader, Layout};
use crate::pages::{Pages, Place, State, TransitionError};
#[cfg(not(loom))]
use crate::primitive::{AtomicU16, Ordering};

/// Fragments shorter than this get a one-byte length. (Nested messages get one up to and including this.)
pub(crate) const COMPACT: usize = 127;

/// The right to write one chunk, from acquiring it to releasing it; it cannot be copied.
///
/// The fill position, count and flags are kept privately: shared memory is only ever written. A detached value stands
/// for no chunk: it has no room at all.
pub(crate) struct OwnedChunk {
    /// Start of the payload. Dangling, with a `size` of zero, when detached.
    payload: NonNull<u8>,
    size: usize,
    used: usize,
    held: Option<Held>,
}

struct Held {
    /// Keeps the memory mapped.
    pages: Pages,
    place: Place,
    header: ChunkHeader,
}

impl Held {
    /// Publishes count and flags, the last word of the header.
    ///
    /// # Safety
    ///
    /// `payload` is the address of the chunk's payload.
    #[inline(always)]
    unsafe fn publish(&self, payload: NonNull<u8>) {
        let packets = self.header.packets_word();
        #[cfg(not(loom))]
        {
            // SAFETY: the header ends where the payload begins, an even address in the memory that `pages` keeps mapped.
            // Other processes and threads access the word, and through atomics only.
            let word = unsafe { AtomicU16::from_ptr(payload.as_ptr().sub(2).cast()) };
            word.store(packets, Ordering::Release);
        }
        #[cfg(loom)]
        {
            let _ = payload;
            self.pages.store_packets(&self.place, packets);
        }
    }
}

// SAFETY: a chunk is exclusive to its owner wherever that is; the memory has no thread affinity.
unsafe impl Send for OwnedChunk {}

impl OwnedChunk {
    /// No chunk.
    pub(crate) fn detached() -> Self {
        Self {
            payload: NonNull::dangling(),
            size: 0,
            used: 0,
            held: None,
        }
    }

    /// Acquires a chunk of a page for writing, if it is free.
    pub(crate) fn acquire(
        pages: &Pages,
        page: u32,
        index: u32,
        header: ChunkHeader,
    ) -> Result<Self, TransitionError> {
        let place = pages.try_acquire(page, index, &header)?;
        let size = place.payload_size();
        let payload = pages.region().address(place.payload_offset(), size);
        let held = Some(Held {
            pages: pages.clone(),
            place,
            header,
        });
        Ok(Self {
            payload,
            size,
            used: 0,
            held,
        })
    }

    /// Whether there is a chunk.
    pub(crate) fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Payload bytes used so far.
    #[inline]
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Payload bytes left.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.size - self.used
    }

    /// Where the payload begins.
    #[inline]
    pub(crate) fn payload(&self) -> *mut u8 {
        self.payload.as_ptr()
    }

    /// Counts payload that was written by address; nothing if that is not an extension within the chunk.
    #[inline]
    pub(crate) fn set_used(&mut self, used: usize) {
        if (self.used..=self.size).contains(&used) {
            self.note_write(self.used, used - self.used);
            self.used = used;
        }
    }

    /// Appends as much of `bytes` as fits and returns how much that was.
    #[inline]
    pub(crate) fn append(&mut self, bytes: &[u8]) -> usize {
        let length = bytes.len().min(self.room());
        self.note_write(self.used, length);
        // SAFETY: `used + length <= size`, and the payload is `size` bytes of mapped memory that only the owner of
        // this value writes. The source is a Rust reference, so it is not in the region.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), self.payload.as_ptr().add(self.used), length);
        }
        self.used += length;
        length
    }

    /// Appends the first `length` of sixteen bytes, if there is room for all sixteen.
    #[inline]
    pub(crate) fn append_short(&mut self, bytes: &[u8; 16], length: usize) -> bool {
        if self.room() < 16 || length > 16 {
            return false;
        }
        self.note_write(self.used, 16);
        // SAFETY: as in `append`, with sixteen bytes of room.
        unsafe {
            self.payload
                .as_ptr()
                .add(self.used)
                .cast::<[u8; 16]>()
                .write_unaligned(*bytes);
        }
        self.used += length;
        true
    }

    /// Appends a whole fragment behind its length, if that leaves more than `spare` bytes and the chunk counts no more than
    /// `max` fragments, and counts the next one ahead. Returns whether it did.
    #[inline]
    pub(crate) fn append_fragment(&mut self, bytes: &[u8], spare: usize, max: u16) -> bool {
        let length = bytes.len();
        let fits = self.room() > length.saturating_add(spare.max(4)) && self.count() <= max;
        if !fits {
            return false;
        }
        let (head, width) = if length < COMPACT {
            ([length as u8, 0, 0, 0], 1)
        } else {
            (redundant_length(length as u32), 4)
        };
        self.note_write(self.used, width + length);
        // SAFETY: `used + 4 + length` is at most `size`, as there is more room than that; otherwise as in `append`. Of the
        // four bytes at first those behind the length are overwritten next, or not used.
        unsafe {
            let at = self.payload.as_ptr().add(self.used);
            at.cast::<[u8; 4]>().write_unaligned(head);
            copy_short(bytes, at.add(width));
        }
        self.used += width + length;
        self.count_fragment();
        true
    }

    /// As [`append_fragment`](Self::append_fragment), for the first bytes of two words, the first one lowest: at most seven
    /// of `head`, then at most sixteen of `tail`.
    #[inline(always)]
    pub(crate) fn append_short_fragment(
        &mut self,
        head: (u64, usize),
        tail: (u128, usize),
        max: u16,
    ) -> bool {
        // Room for all that is written, whatever of it is used, and for some bytes more.
        let fits = self.room() > 32 && head.1 <= 7 && tail.1 <= 16 && self.count() <= max;
        if !fits {
            return false;
        }
        let length = head.1 + tail.1;
        self.note_write(self.used, 8 + 16);
        // SAFETY: at most 1 + 7 + 16 bytes are written, and there is more room than that; otherwise as in `append`.
        unsafe {
            let at = self.payload.as_ptr().add(self.used);
            // Behind their length. What overlaps with the tail is overwritten next.
            at.cast::<u64>()
                .write_unaligned((head.0 << 8 | length as u64).to_le());
            let at = at.add(1 + head.1);
            // In halves, as they are in registers.
            at.cast::<u64>().write_unaligned((tail.0 as u64).to_le());
            at.add(8)
                .cast::<u64>()
                .write_unaligned(((tail.0 >> 64) as u64).to_le());
        }
        self.used += 1 + length;
        self.count_fragment();
        true
    }

    /// How long a fragment may be that is written in place by [`put`](Self::put) and counted by
    /// [`finish_fragment`](Self::finish_fragment), in bytes. `None` if the chunk counts more than `max` fragments.
    #[inline]
    pub(crate) fn fragment_room(&self, max: u16) -> Option<usize> {
        // Behind it there is room for its length, for all sixteen bytes of the last part, and for some bytes to spare.
        let room = self.room().checked_sub(1 + 2 * 16)?;
        (self.count() <= max).then_some(room.min(COMPACT - 1))
    }

    /// Writes sixteen bytes, the first one lowest, at `at` bytes behind where the next fragment's own will begin; nothing
    /// if there is no room for them. The bytes are not appended yet.
    #[inline]
    pub(crate) fn put(&mut self, at: usize, bytes: u128) {
        if at > COMPACT || self.room() < 1 + at + 16 {
            return;
        }
        self.note_write(self.used + 1 + at, 16);
        // SAFETY: there is room for all sixteen, as checked; otherwise as in `append`.
        unsafe {
            let to = self.payload.as_ptr().add(self.used + 1 + at);
            // In halves, as they are in registers.
            to.cast::<u64>().write_unaligned((bytes as u64).to_le());
            to.add(8)
                .cast::<u64>()
                .write_unaligned(((bytes >> 64) as u64).to_le());
        }
    }

    /// As [`put`](Self::put), for one byte.
    #[inline]
    pub(crate) fn put_byte(&mut self, at: usize, byte: u8) {
        if at > COMPACT || self.room() < 2 + at {
            return;
        }
        self.note_write(self.used + 1 + at, 1);
        // SAFETY: there is room, as checked; otherwise as in `append`.
        unsafe { self.payload.as_ptr().add(self.used + 1 + at).write(byte) };
    }

    /// Appends a fragment of `length` bytes that are there already, and counts the next one ahead; nothing if that is not
    /// less than a [`COMPACT`] one has, or more than there is room for.
    #[inline]
    pub(crate) fn finish_fragment(&mut self, length: usize) {
        if length >= COMPACT || self.room() < 1 + length {
            return;
        }
        self.note_write(self.used, 1);
        // SAFETY: there is room for one byte at least, as checked; otherwise as in `append`.
        unsafe { self.payload.as_ptr().add(self.used).write(length as u8) };
        self.used += 1 + length;
        self.count_fragment();
    }

    /// Overwrites bytes already appended; does nothing if `at..at + 4` is not within them.
    #[inline]
    pub(crate) fn overwrite(&mut self, at: usize, bytes: [u8; 4]) {
        if at.checked_add(4).is_some_and(|end| end <= self.used) {
            self.note_write(at, 4);
            // SAFETY: within the used part of the payload, as checked; otherwise as in `append`.
            unsafe {
                self.payload
                    .as_ptr()
                    .add(at)
                    .cast::<[u8; 4]>()
                    .write_unaligned(bytes)
            };
        }
    }

    /// Turns the four-byte length field at `at` into a one-byte one: moves what follows back by three bytes.
    ///
    /// Does nothing if the field is not within the used part, or what follows is not shorter than 128 bytes.
    #[inline]
    pub(crate) fn compact(&mut self, at: usize) {
        let Some(length) = at
            .checked_add(4)
            .and_then(|start| self.used.checked_sub(start))
        else {
            return;
        };
        if length > 127 {
            return;
        }
        self.note_write(at, 4 + length);
        // SAFETY: source and target are within the used part of the payload, which only this value's owner writes, so
        // what is read back are its own bytes (or garbage from a misbehaving peer; any bytes are valid).
        unsafe {
            let field = self.payload.as_ptr().add(at);
            field.write(length as u8);
            ptr::copy(field.add(4), field.add(1), length);
        }
        self.used -= 3;
    }

    /// Shows a write of payload to a model checker, if there is one.
    #[inline]
    fn note_write(&self, at: usize, length: usize) {
        if cfg!(loom)
            && let Some(held) = &self.held
        {
            let offset = held.place.payload_offset() + at;
            held.pages.region().note_write(offset, length);
        }
    }

    /// The chunk's number, `None` if detached.
    pub(crate) fn chunk_id(&self) -> Option<u32> {
        self.held.as_ref().map(|held| held.header.chunk_id)
    }

    /// The writer the chunk was acquired for, `None` if detached.
    pub(crate) fn writer_id(&self) -> Option<u16> {
        self.held.as_ref().map(|held| held.header.writer_id)
    }

    /// How the chunk's page is cut, `None` if detached.
    pub(crate) fn layout(&self) -> Option<Layout> {
        self.held.as_ref().map(|held| held.place.layout)
    }

    /// Fragments started.
    #[inline]
    pub(crate) fn count(&self) -> u16 {
        self.held.as_ref().map_or(0, |held| held.header.count)
    }

    /// Whether the last fragment has holes.
    pub(crate) fn needs_patching(&self) -> bool {
        self.held
            .as_ref()
            .is_some_and(|held| held.header.flags.contains(ChunkFlags::NEEDS_PATCHING))
    }

    /// Counts one more fragment, publishing everything written before.
    #[inline]
    pub(crate) fn count_fragment(&mut self) {
        if let Some(held) = &mut self.held {
            held.header.count += 1;
            // SAFETY: the payload is that of the chunk that is held.
            unsafe { held.publish(self.payload) };
        }
    }

    /// Sets flags.
    pub(crate) fn set_flags(&mut self, flags: ChunkFlags) {
        if let Some(held) = &mut self.held {
            held.header.flags = held.header.flags.with(flags);
            // SAFETY: as in `count_fragment`.
            unsafe { held.publish(self.payload) };
        }
    }

    /// Fills a hole in a chunk that was kept back for it. The hole lies within the payload or nothing happens.
    pub(crate) fn patch(&mut self, offset: u16, bytes: [u8; 4]) {
        self.overwrite(offset.into(), bytes);
    }

    /// Clears the flag that says there are holes.
    pub(crate) fn clear_needs_patching(&mut self) {
        if let Some(held) = &mut self.held {
            held.header.flags = held.header.flags.without(ChunkFlags::NEEDS_PATCHING);
            // SAFETY: as in `count_fragment`.
            unsafe { held.publish(self.payload) };
        }
    }

    /// Page and index of the chunk and its size with the header; `None` if detached.
    pub(crate) fn location(&self) -> Option<(u32, u32, usize)> {
        self.held
            .as_ref()
            .map(|held| (held.place.page, held.place.index, held.place.size))
    }

    /// Marks the chunk complete. Under hopeless contention it stays as it is and is lost to both sides.
    pub(crate) fn release(mut self) -> Option<Released> {
        let held = self.held.take()?;
        held.pages.release_complete(&held.place).ok()?;
        Some(Released {
            pages: held.pages,
            place: held.place,
        })
    }
}

/// Copies bytes of which there are usually few: without a call for fewer than 64.
///
/// # Safety
///
/// There are as many bytes to write to at `to`, and they are not in `from`.
#[inline]
unsafe fn copy_short(from: &[u8], to: *mut u8) {
    let length = from.len();
    let source = from.as_ptr();
    // SAFETY: all offsets with what is copied there end within `length`; the rest is up to the caller.
    unsafe {
        let copy = |at: usize| {
            let bytes = source.add(at).cast::<[u8; 16]>().read_unaligned();
            to.add(at).cast::<[u8; 16]>().write_unaligned(bytes);
        };
        match length {
            16..64 => {
                // From both ends; what is between may be copied twice.
                copy(0);
                if length > 32 {
                    copy(16);
                    copy(length - 32);
                }
                copy(length - 16);
            }
            8..16 => {
                let first = source.cast::<[u8; 8]>().read_unaligned();
                let last = source.add(length - 8).cast::<[u8; 8]>().read_unaligned();
                to.cast::<[u8; 8]>().write_unaligned(first);
                to.add(length - 8).cast::<[u8; 8]>().write_unaligned(last);
            }
            _ => ptr::copy_nonoverlapping(source, to, length),
        }
    }
}

/// A chunk that is complete.
pub(crate) struct Released {
    pages: Pages,
    place: Place,
}

impl Released {
    /// Where there is no shared memory: takes the whole chunk, header included, and frees it.
    pub(crate) fn take_bytes(self) -> Vec<u8> {
        let mut bytes = vec![0; self.place.size];
        self.pages.region().copy_out(self.place.offset, &mut bytes);
        let _reading = self.pages.region().lock_reading();
        // The word is only ever changed by this process here, so this cannot fail.
        let _ = self.pages.release_free(&self.place, State::Complete);
        bytes
    }
}

impl Drop for OwnedChunk {
    /// A chunk that is dropped rather than released goes to the service as it is, so that it is freed some day.
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            let _ = held.pages.release_complete(&held.place);
        }
    }
}

impl fmt::Debug for OwnedChunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedChunk")
            .field("place", &self.held.as_ref().map(|held| held.place))
            .field("used", &self.used)
            .field("size", &self.size)
            .finish()
    }
}
