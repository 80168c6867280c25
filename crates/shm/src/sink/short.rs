//! Short packets that are built in place from registers.

use std::fmt;

use super::{ChunkSink, MAX_FRAGMENTS};
use crate::chunk::ShortFragment;

/// A short packet that is written in place without being counted, and exists only after
/// [`finish`](Self::finish). See [`short::begin`](crate::short::begin).
#[must_use = "a packet that is not finished is not there"]
pub struct ShortPacket<'a> {
    fragment: ShortFragment<'a>,
    written: &'a mut u64,
}

impl ChunkSink {
    /// Starts a short packet, if it was counted ahead, as is common, and it fits.
    #[inline(always)]
    pub(crate) fn short_packet(&mut self) -> Option<ShortPacket<'_>> {
        if !self.is_usual() {
            return None;
        }
        let fragment = self.chunk.short_fragment(MAX_FRAGMENTS)?;
        let written = &mut self.written;
        Some(ShortPacket { fragment, written })
    }
}

impl ShortPacket<'_> {
    /// Appends the first `length` of sixteen bytes, lowest first. Returns false if there is no
    /// space.
    #[inline(always)]
    #[must_use]
    pub fn push(&mut self, bytes: u128, length: usize) -> bool {
        self.fragment.push(bytes, length)
    }

    /// Returns the number of bytes appended.
    #[inline]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.fragment.len()
    }

    /// Changes a byte that was appended.
    #[inline]
    pub fn set(&mut self, at: usize, byte: u8) {
        self.fragment.set(at, byte);
    }

    /// Ends the packet, which exists from now on.
    #[inline(always)]
    pub fn finish(self) {
        *self.written += self.fragment.len() as u64;
        self.fragment.finish();
    }
}

impl fmt::Debug for ShortPacket<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShortPacket")
            .field("length", &self.fragment.len())
            .field("free", &self.fragment.free())
            .finish()
    }
}
