//! Short packets, written in place.

use std::fmt;

use super::{ChunkSink, MAX_FRAGMENTS};

/// A short packet that is written in place without being counted; nothing of it is there before
/// [`finish`](Self::finish). See [`short::begin`](crate::short::begin).
#[must_use = "a packet that is not finished is not there"]
pub struct ShortPacket<'a> {
    sink: &'a mut ChunkSink,
    length: usize,
    /// Longest it may become.
    room: usize,
}

impl ChunkSink {
    /// Appends a packet of two parts if that can be done in the usual way. Returns whether it was.
    /// See [`short::write`](crate::short::write).
    #[inline(always)]
    pub(crate) fn append_short_packet(&mut self, head: (u64, usize), tail: (u128, usize)) -> bool {
        let is_written =
            self.is_usual() && self.chunk.append_short_fragment(head, tail, MAX_FRAGMENTS);
        if is_written {
            self.written += (head.1 + tail.1) as u64;
        }
        is_written
    }

    /// A short packet, in the usual case that it has been counted ahead and that there is room.
    #[inline(always)]
    pub(crate) fn short_packet(&mut self) -> Option<ShortPacket<'_>> {
        if !self.is_usual() {
            return None;
        }
        let room = self.chunk.fragment_room(MAX_FRAGMENTS)?;
        Some(ShortPacket {
            sink: self,
            length: 0,
            room,
        })
    }
}

impl ShortPacket<'_> {
    /// Appends the first `length` of sixteen bytes, the first one lowest. Returns whether there was room for them.
    #[inline(always)]
    #[must_use]
    pub fn push(&mut self, bytes: u128, length: usize) -> bool {
        let fits = length <= 16 && self.length + length <= self.room;
        if fits {
            self.sink.chunk.put(self.length, bytes);
            self.length += length;
        }
        fits
    }

    /// How many bytes have been appended.
    #[inline]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Changes a byte that has been appended.
    #[inline]
    pub fn set(&mut self, at: usize, byte: u8) {
        if at < self.length {
            self.sink.chunk.put_byte(at, byte);
        }
    }

    /// Ends the packet, which is there from now on.
    #[inline]
    pub fn finish(self) {
        self.sink.chunk.finish_fragment(self.length);
        self.sink.written += self.length as u64;
    }
}

impl fmt::Debug for ShortPacket<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShortPacket")
            .field("length", &self.length)
            .field("room", &self.room)
            .finish()
    }
}
