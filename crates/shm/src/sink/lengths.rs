//! The lengths of nested messages, which are known when a message ends.
//!
//! Most messages are short, so a length initially has one byte, and the content is moved if it
//! turns out to need four. If that happened to the last message at the same depth, the next one
//! gets four bytes from the start.

use crate::chunk::{OwnedChunk, WIDE};
use crate::patch::PatchList;

/// The open messages, outermost first.
#[derive(Debug, Default)]
pub(super) struct Lengths {
    open: Vec<Open>,
    /// A bit for each depth, set if the last length there had four bytes. The lowest bit is the
    /// packet's.
    wide: u32,
}

/// An open nested message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    /// The position of its first byte in the packet.
    pub(super) start: u64,
    pub(super) field: LengthField,
}

/// The bytes in which the length of an open message is written.
#[derive(Clone, Copy, Debug)]
pub(super) enum LengthField {
    /// One byte of the current chunk, at this offset of the payload.
    Narrow(usize),
    /// Four bytes of the current chunk.
    Wide(usize),
    /// Four bytes of a chunk already released: this entry of the patch list.
    Patch(u64),
    /// Memory of the writer itself, at this offset.
    Local(usize),
    /// None: the chunk was abandoned, or the packet is discarded.
    Nowhere,
}

impl LengthField {
    /// Returns a field in the current chunk, at this offset of the payload.
    #[inline]
    pub(super) fn in_chunk(at: usize, is_wide: bool) -> Self {
        if is_wide {
            Self::Wide(at)
        } else {
            Self::Narrow(at)
        }
    }
}

impl Lengths {
    /// Returns the number of open messages.
    #[inline]
    pub(super) fn depth(&self) -> usize {
        self.open.len()
    }

    /// Adds a message, and returns its depth.
    #[inline]
    pub(super) fn push(&mut self, start: u64, field: LengthField) -> usize {
        self.open.push(Open { start, field });
        self.open.len() - 1
    }

    /// Removes the innermost message.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Open> {
        self.open.pop()
    }

    /// Returns true if the next packet should have a wide length.
    #[inline]
    pub(super) fn is_packet_wide(&self) -> bool {
        self.wide & 1 != 0
    }

    /// Returns true if the next nested message should have a wide length.
    #[inline]
    pub(super) fn is_next_wide(&self) -> bool {
        self.wide & self.bit() != 0
    }

    /// Records whether the packet's length was wide.
    pub(super) fn note_packet(&mut self, is_wide: bool) {
        self.wide = self.wide & !1 | u32::from(is_wide);
    }

    /// Records whether the length of the last closed message was wide.
    pub(super) fn note(&mut self, is_wide: bool) {
        let bit = self.bit();
        self.wide = self.wide & !bit | if is_wide { bit } else { 0 };
    }

    /// Returns the bit of the next message to be opened. The deepest messages share one.
    #[inline]
    fn bit(&self) -> u32 {
        2 << self.open.len().min(30)
    }

    /// Makes the lengths in the chunk wide, innermost first, so that no pending one moves.
    /// [`leave_behind`](Self::leave_behind) computes their new offsets.
    pub(super) fn widen(&self, chunk: &mut OwnedChunk) {
        for open in self.open.iter().rev() {
            if let LengthField::Narrow(at) = open.field {
                chunk.widen(at);
            }
        }
    }

    /// Moves the lengths in the chunk to the patch list, after they were [widened](Self::widen) and
    /// then all moved by `moved` bytes. Returns true if there are any.
    pub(super) fn leave_behind(
        &mut self,
        chunk_id: u32,
        moved: usize,
        patches: &mut PatchList,
    ) -> bool {
        let mut any = false;
        // The number of bytes by which the lengths of outer messages have grown.
        let mut grown = 0;
        for open in &mut self.open {
            let (at, growth) = match open.field {
                LengthField::Narrow(at) => (at, WIDE - 1),
                LengthField::Wide(at) => (at, 0),
                LengthField::Patch(_) | LengthField::Local(_) | LengthField::Nowhere => continue,
            };
            let number = patches.push(chunk_id, (at + moved + grown) as u16);
            open.field = LengthField::Patch(number);
            grown += growth;
            open.start = open.start.wrapping_add(grown as u64);
            any = true;
        }
        any
    }

    /// Gives up the lengths in the chunk, which is lost.
    pub(super) fn abandon(&mut self) {
        for open in &mut self.open {
            if matches!(open.field, LengthField::Narrow(_) | LengthField::Wide(_)) {
                open.field = LengthField::Nowhere;
            }
        }
    }
}
