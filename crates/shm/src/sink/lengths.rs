//! The lengths of nested messages, which are known when a message ends.
//!
//! Most messages are short, so a length is given one byte at first, and its content is moved if it
//! turns out to need four. Where that happened to the last message of the same depth, the next one
//! gets four bytes at once.

use crate::chunk::{OwnedChunk, WIDE};
use crate::patch::PatchList;

/// The messages that are open, outermost first.
#[derive(Debug, Default)]
pub(super) struct Lengths {
    open: Vec<Open>,
    /// A bit for each depth: whether the last length there took four bytes. The lowest is the
    /// packet's.
    wide: u32,
}

/// An open nested message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    /// Position of its first byte in the packet.
    pub(super) start: u64,
    pub(super) place: Place,
}

/// The place of the length of an open message.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// One byte of the current chunk, at this offset of the payload.
    Narrow(usize),
    /// Four bytes of the current chunk.
    Wide(usize),
    /// Four bytes of a chunk already given away: this entry of the patch list.
    Patch(u64),
    /// In memory of the writer's own, at this offset.
    Local(usize),
    /// In a chunk that was abandoned, or discarded.
    Nowhere,
}

impl Place {
    /// A place in the current chunk.
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
    /// Returns how many messages are open.
    #[inline]
    pub(super) fn depth(&self) -> usize {
        self.open.len()
    }

    /// Adds a message and returns its depth.
    #[inline]
    pub(super) fn push(&mut self, start: u64, place: Place) -> usize {
        self.open.push(Open { start, place });
        self.open.len() - 1
    }

    /// Takes the innermost message out.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Open> {
        self.open.pop()
    }

    /// Returns whether the next packet had better get a wide length.
    #[inline]
    pub(super) fn is_packet_wide(&self) -> bool {
        self.wide & 1 != 0
    }

    /// Returns whether the next nested message had better get a wide length.
    #[inline]
    pub(super) fn is_next_wide(&self) -> bool {
        self.wide & self.bit() != 0
    }

    /// Notes whether the packet's length was wide.
    pub(super) fn note_packet(&mut self, is_wide: bool) {
        self.wide = self.wide & !1 | u32::from(is_wide);
    }

    /// Notes whether the length of the message that was just taken out was wide.
    pub(super) fn note(&mut self, is_wide: bool) {
        let bit = self.bit();
        self.wide = self.wide & !bit | if is_wide { bit } else { 0 };
    }

    /// The bit of the next message to be opened. The deepest ones share theirs.
    #[inline]
    fn bit(&self) -> u32 {
        2 << self.open.len().min(30)
    }

    /// Makes those in the chunk wide, innermost first, so that none of those to come moves. Where
    /// they are then is for [`leave_behind`](Self::leave_behind) to say.
    pub(super) fn widen(&self, chunk: &mut OwnedChunk) {
        for open in self.open.iter().rev() {
            if let Place::Narrow(at) = open.place {
                chunk.widen(at);
            }
        }
    }

    /// Moves those in the chunk to the patch list, after they were [widened](Self::widen) and all
    /// of them were moved on by so many bytes. Returns whether there are any.
    pub(super) fn leave_behind(
        &mut self,
        chunk_id: u32,
        moved: usize,
        patches: &mut PatchList,
    ) -> bool {
        let mut any = false;
        // By how many bytes the lengths of the messages around one grew.
        let mut grown = 0;
        for open in &mut self.open {
            let (at, growth) = match open.place {
                Place::Narrow(at) => (at, WIDE - 1),
                Place::Wide(at) => (at, 0),
                Place::Patch(_) | Place::Local(_) | Place::Nowhere => continue,
            };
            let number = patches.push(chunk_id, (at + moved + grown) as u16);
            open.place = Place::Patch(number);
            grown += growth;
            open.start = open.start.wrapping_add(grown as u64);
            any = true;
        }
        any
    }

    /// Gives up those in the chunk, which is lost.
    pub(super) fn abandon(&mut self) {
        for open in &mut self.open {
            if matches!(open.place, Place::Narrow(_) | Place::Wide(_)) {
                open.place = Place::Nowhere;
            }
        }
    }
}
