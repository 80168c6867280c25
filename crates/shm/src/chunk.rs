//! A chunk held by a writer.

use std::fmt;
use std::ptr::{self, NonNull};

use ferretto_wire::redundant_length;

use crate::layout::{ChunkFlags, ChunkHeader, Layout};
use crate::pages::{ChunkPosition, Pages, State, TransitionError};
#[cfg(not(loom))]
use crate::primitive::{AtomicU16, Ordering};

/// Fragments shorter than this have a one-byte length. (Nested messages also have one at exactly
/// this length.)
pub(crate) const COMPACT: usize = 127;

/// The size of all other length fields, which are filled in after their content.
pub(crate) const WIDE: usize = 4;

/// The largest number of bytes appended to a [`ShortFragment`] at once.
const PART: usize = 16;

/// The exclusive right to write one chunk, from acquiring it to releasing it.
///
/// The fill position, count and flags are private copies: shared memory is only written. A detached
/// value has no chunk and no free bytes.
pub(crate) struct OwnedChunk {
    /// The start of the payload. Dangling, with a `size` of zero, if detached.
    payload: NonNull<u8>,
    size: usize,
    used: usize,
    /// The end of the bytes for appending: at most `size`, minus the bytes by which narrow lengths
    /// may grow.
    limit: usize,
    held: Option<Held>,
}

struct Held {
    /// Keeps the memory mapped.
    pages: Pages,
    position: ChunkPosition,
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
            // SAFETY: the header ends where the payload begins, an even address in the memory that
            // `pages` keeps mapped. Other processes and threads access the word, and through
            // atomics only.
            let word = unsafe { AtomicU16::from_ptr(payload.as_ptr().sub(2).cast()) };
            word.store(packets, Ordering::Release);
        }
        #[cfg(loom)]
        {
            let _ = payload;
            self.pages.store_packets(&self.position, packets);
        }
    }
}

// SAFETY: a chunk is exclusive to its owner wherever that is; the memory has no thread affinity.
unsafe impl Send for OwnedChunk {}

impl OwnedChunk {
    /// Returns a detached value.
    pub(crate) fn detached() -> Self {
        Self {
            payload: NonNull::dangling(),
            size: 0,
            used: 0,
            limit: 0,
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
        let position = pages.try_acquire(page, index, &header)?;
        let size = position.payload_size();
        let payload = pages.region().address(position.payload_offset(), size);
        let held = Some(Held {
            pages: pages.clone(),
            position,
            header,
        });
        Ok(Self {
            payload,
            size,
            used: 0,
            limit: size,
            held,
        })
    }

    /// Returns true unless the value is detached.
    pub(crate) fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Returns the number of payload bytes used so far.
    #[inline]
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Returns the number of payload bytes left.
    #[inline]
    pub(crate) fn free(&self) -> usize {
        self.limit - self.used
    }

    /// Returns the address of the payload.
    #[inline]
    pub(crate) fn payload(&self) -> *mut u8 {
        self.payload.as_ptr()
    }

    /// Sets the number of used bytes after payload was written by address. Does nothing if that is
    /// not an extension within the chunk.
    #[inline]
    pub(crate) fn set_used(&mut self, used: usize) {
        if (self.used..=self.limit).contains(&used) {
            self.note_write(self.used, used - self.used);
            self.used = used;
        }
    }

    /// Appends as much of `bytes` as fits, and returns the number of bytes appended.
    #[inline]
    pub(crate) fn append(&mut self, bytes: &[u8]) -> usize {
        let length = bytes.len().min(self.free());
        self.note_write(self.used, length);
        // SAFETY: `used + length <= limit <= size`, and the payload is `size` bytes of mapped
        // memory that only the owner of this value writes. The source is a Rust reference, so it is
        // not in the region.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), self.payload.as_ptr().add(self.used), length);
        }
        self.used += length;
        length
    }

    /// Appends all of `bytes`, which are usually few, if they fit. Returns false if they do not.
    #[inline]
    pub(crate) fn append_whole(&mut self, bytes: &[u8]) -> bool {
        let length = bytes.len();
        if length > self.free() {
            return false;
        }
        self.note_write(self.used, length);
        // SAFETY: as in `append`, with space for all of them.
        unsafe { copy_short(bytes, self.payload.as_ptr().add(self.used)) };
        self.used += length;
        true
    }

    /// Appends the first `length` of sixteen bytes, if there is space for all sixteen. Returns
    /// false if there is not.
    #[inline]
    pub(crate) fn append_short(&mut self, bytes: &[u8; 16], length: usize) -> bool {
        if self.free() < PART || length > PART {
            return false;
        }
        self.note_write(self.used, PART);
        // SAFETY: as in `append`, with sixteen free bytes.
        unsafe {
            write_part(
                u128::from_le_bytes(*bytes),
                self.payload.as_ptr().add(self.used),
            )
        };
        self.used += length;
        true
    }

    /// Appends a whole fragment after its length and counts the next one ahead, if that leaves more
    /// than `spare` bytes and the chunk counts at most `max` fragments. Returns false if it does
    /// not.
    #[inline]
    pub(crate) fn append_fragment(&mut self, bytes: &[u8], spare: usize, max: u16) -> bool {
        let length = bytes.len();
        let fits = self.free() > length.saturating_add(spare.max(4)) && self.count() <= max;
        if !fits {
            return false;
        }
        let (head, width) = if length < COMPACT {
            ([length as u8, 0, 0, 0], 1)
        } else {
            (redundant_length(length as u32), WIDE)
        };
        self.note_write(self.used, width + length);
        // SAFETY: `used + 4 + length` is at most `size`, as more bytes than that are free;
        // otherwise as in `append`. Of the four bytes at first those behind the length are
        // overwritten next, or not used.
        unsafe {
            let at = self.payload.as_ptr().add(self.used);
            at.cast::<[u8; 4]>().write_unaligned(head);
            copy_short(bytes, at.add(width));
        }
        self.used += width + length;
        self.count_fragment();
        true
    }

    /// Starts a fragment that is built in place and takes effect when it is finished. `None` if the
    /// chunk counts more than `max` fragments, or has fewer free bytes than a fragment of any
    /// length needs.
    #[inline(always)]
    pub(crate) fn short_fragment(&mut self, max: u16) -> Option<ShortFragment<'_>> {
        // The reserve is for its length, for the last sixteen bytes, and for the next fragment.
        let free = self.free().checked_sub(1 + 2 * PART)?;
        if self.count() > max {
            return None;
        }
        Some(ShortFragment {
            chunk: self,
            length: 0,
            free: free.min(COMPACT - 1),
        })
    }

    /// Reserves a length of one byte or of [`WIDE`], to be filled in later, and returns its offset.
    /// In both cases the number of free bytes shrinks by [`WIDE`] bytes until the length is filled
    /// in; `None` if there are fewer.
    #[inline]
    pub(crate) fn begin_length(&mut self, is_wide: bool) -> Option<usize> {
        if self.free() < WIDE {
            return None;
        }
        let at = self.used;
        let width = if is_wide { WIDE } else { 1 };
        self.note_write(at, WIDE);
        // SAFETY: there is space for four bytes; otherwise as in `append`.
        unsafe {
            self.payload
                .as_ptr()
                .add(at)
                .cast::<[u8; WIDE]>()
                .write_unaligned([0; WIDE]);
        }
        self.used += width;
        self.limit -= WIDE - width;
        Some(at)
    }

    /// Sets the one-byte length at `at` to the number of bytes after it, if that is at most
    /// `longest` and 127. Otherwise returns false, and the length has to be [widened](Self::widen).
    #[inline]
    pub(crate) fn end_narrow(&mut self, at: usize, longest: usize) -> bool {
        let length = self.used.wrapping_sub(at + 1);
        if at >= self.used || length > longest.min(COMPACT) {
            return false;
        }
        self.note_write(at, 1);
        // SAFETY: within the used part of the payload, as checked; otherwise as in `append`.
        unsafe { self.payload.as_ptr().add(at).write(length as u8) };
        self.limit = self.size.min(self.limit + WIDE - 1);
        true
    }

    /// Turns the one-byte length at `at` into one of [`WIDE`] bytes, still to be filled in, by
    /// moving the bytes after it.
    #[cold]
    pub(crate) fn widen(&mut self, at: usize) {
        let Some(length) = self.used.checked_sub(at + 1) else {
            return;
        };
        if self.used + WIDE - 1 > self.size {
            return;
        }
        self.note_write(at, WIDE + length);
        // SAFETY: the target ends within the payload, as checked, which only this value's owner
        // writes, so what is read are its own bytes (or garbage from a misbehaving peer; any bytes
        // are valid).
        unsafe {
            let field = self.payload.as_ptr().add(at);
            ptr::copy(field.add(1), field.add(WIDE), length);
        }
        self.used += WIDE - 1;
        self.limit = self.size.min(self.limit + WIDE - 1);
    }

    /// Overwrites bytes already appended. Does nothing if `at..at + 4` is not within them.
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

    /// Turns the four-byte length field at `at` into a one-byte one by moving the bytes after it
    /// back by three.
    ///
    /// Does nothing if the field is not within the used part, or its content is not shorter than
    /// 128 bytes.
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
        // SAFETY: source and target are within the used part of the payload, which only this
        // value's owner writes, so what is read back are its own bytes (or garbage from a
        // misbehaving peer; any bytes are valid).
        unsafe {
            let field = self.payload.as_ptr().add(at);
            field.write(length as u8);
            ptr::copy(field.add(4), field.add(1), length);
        }
        self.used -= 3;
    }

    /// Reports a write of payload to the model checker, if there is one.
    #[inline]
    fn note_write(&self, at: usize, length: usize) {
        if cfg!(loom)
            && let Some(held) = &self.held
        {
            let offset = held.position.payload_offset() + at;
            held.pages.region().note_write(offset, length);
        }
    }

    /// Returns the id of the chunk; `None` if detached.
    pub(crate) fn chunk_id(&self) -> Option<u32> {
        self.held.as_ref().map(|held| held.header.chunk_id)
    }

    /// Returns the writer that the chunk was acquired for; `None` if detached.
    pub(crate) fn writer_id(&self) -> Option<u16> {
        self.held.as_ref().map(|held| held.header.writer_id)
    }

    /// Returns the layout of the chunk's page; `None` if detached.
    pub(crate) fn layout(&self) -> Option<Layout> {
        self.held.as_ref().map(|held| held.position.layout)
    }

    /// Returns the number of fragments started.
    #[inline]
    pub(crate) fn count(&self) -> u16 {
        self.held.as_ref().map_or(0, |held| held.header.count)
    }

    /// Returns true if the last fragment has holes.
    pub(crate) fn needs_patching(&self) -> bool {
        self.held
            .as_ref()
            .is_some_and(|held| held.header.flags.contains(ChunkFlags::NEEDS_PATCHING))
    }

    /// Counts one more fragment, which publishes all bytes written before.
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

    /// Fills a hole in a chunk that was kept back for it. Does nothing if the hole is not within
    /// the payload.
    pub(crate) fn patch(&mut self, offset: u16, bytes: [u8; 4]) {
        self.overwrite(offset.into(), bytes);
    }

    /// Clears the flag for holes.
    pub(crate) fn clear_needs_patching(&mut self) {
        if let Some(held) = &mut self.held {
            held.header.flags = held.header.flags.without(ChunkFlags::NEEDS_PATCHING);
            // SAFETY: as in `count_fragment`.
            unsafe { held.publish(self.payload) };
        }
    }

    /// Returns the page, index and size (with the header) of the chunk; `None` if detached.
    pub(crate) fn location(&self) -> Option<(u32, u32, usize)> {
        self.held
            .as_ref()
            .map(|held| (held.position.page, held.position.index, held.position.size))
    }

    /// Marks the chunk as complete. If contention never ends, its state stays unchanged, and the
    /// chunk is lost to both sides.
    pub(crate) fn release(mut self) -> Option<Released> {
        let held = self.held.take()?;
        held.pages.release_complete(&held.position).ok()?;
        Some(Released {
            pages: held.pages,
            position: held.position,
        })
    }
}

/// A fragment that is built in place, and takes effect only when it is [finished](Self::finish).
pub(crate) struct ShortFragment<'a> {
    chunk: &'a mut OwnedChunk,
    length: usize,
    /// The largest length. The chunk also has space for the length field and for `PART` more bytes.
    free: usize,
}

impl ShortFragment<'_> {
    /// Appends the first `length` of sixteen bytes, lowest first. Returns false if there is no
    /// space.
    #[inline(always)]
    pub(crate) fn push(&mut self, bytes: u128, length: usize) -> bool {
        if length > PART || self.length + length > self.free {
            return false;
        }
        let at = self.chunk.used + 1 + self.length;
        self.chunk.note_write(at, PART);
        // SAFETY: `length` was at most `free`, behind which there is space for sixteen bytes, see
        // there, and the chunk has been borrowed since; otherwise as in `append`.
        unsafe { write_part(bytes, self.chunk.payload.as_ptr().add(at)) };
        self.length += length;
        true
    }

    /// Returns the number of bytes appended.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Returns the largest number of bytes that can be appended.
    pub(crate) fn free(&self) -> usize {
        self.free
    }

    /// Changes a byte that was appended.
    #[inline]
    pub(crate) fn set(&mut self, at: usize, byte: u8) {
        if at < self.length {
            let at = self.chunk.used + 1 + at;
            self.chunk.note_write(at, 1);
            // SAFETY: it was written by `push`, with the same bounds.
            unsafe { self.chunk.payload.as_ptr().add(at).write(byte) };
        }
    }

    /// Ends the fragment, and counts the next one ahead.
    #[inline(always)]
    pub(crate) fn finish(self) {
        let Self { chunk, length, .. } = self;
        chunk.note_write(chunk.used, 1);
        // SAFETY: there is space for it, see `free`; otherwise as in `append`.
        unsafe { chunk.payload.as_ptr().add(chunk.used).write(length as u8) };
        chunk.used += 1 + length;
        chunk.count_fragment();
    }
}

/// Writes sixteen bytes, lowest first. It writes two halves, as they are in registers: storing the
/// halves and loading the whole again would be slow.
///
/// # Safety
///
/// `to` is valid for writes of sixteen bytes.
#[inline(always)]
unsafe fn write_part(bytes: u128, to: *mut u8) {
    // SAFETY: both halves are within the sixteen bytes.
    unsafe {
        to.cast::<u64>().write_unaligned((bytes as u64).to_le());
        to.add(8)
            .cast::<u64>()
            .write_unaligned(((bytes >> 64) as u64).to_le());
    }
}

/// Copies bytes that are usually few, without a call for fewer than 64.
///
/// # Safety
///
/// `to` is valid for writes of as many bytes, which are not in `from`.
#[inline]
unsafe fn copy_short(from: &[u8], to: *mut u8) {
    let length = from.len();
    let source = from.as_ptr();
    // SAFETY: all copies end within `length`; the rest is up to the caller.
    unsafe {
        let copy = |at: usize| {
            let bytes = source.add(at).cast::<[u8; 16]>().read_unaligned();
            to.add(at).cast::<[u8; 16]>().write_unaligned(bytes);
        };
        match length {
            16..64 => {
                // The copies from both ends may overlap.
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

/// A complete chunk.
pub(crate) struct Released {
    pages: Pages,
    position: ChunkPosition,
}

impl Released {
    /// Takes the bytes of the whole chunk, header included, and frees it.
    pub(crate) fn take_bytes(self) -> Vec<u8> {
        let mut bytes = vec![0; self.position.size];
        self.pages
            .region()
            .copy_out(self.position.offset, &mut bytes);
        let _reading = self.pages.region().lock_reading();
        // Only this process changes the word here, so this cannot fail.
        let _ = self.pages.release_free(&self.position, State::Complete);
        bytes
    }
}

impl Drop for OwnedChunk {
    /// Releases a dropped chunk unchanged, so that the service frees it some day.
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            let _ = held.pages.release_complete(&held.position);
        }
    }
}

impl fmt::Debug for OwnedChunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedChunk")
            .field("position", &self.held.as_ref().map(|held| held.position))
            .field("used", &self.used)
            .field("size", &self.size)
            .finish()
    }
}
