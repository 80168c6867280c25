//! Packets whose bytes are written through raw addresses, as by C programs.
//!
//! Programs compiled against the C interface write between two pointers, and ask for more memory
//! when they reach the second. They reserve four bytes for the length of every nested message and
//! fill them in later, in place. If the chunk has to be released before that, they announce each
//! such length and get another address to write to.
//!
//! # Soundness
//!
//! The pointers point into the part of a chunk that has no other owner (see [`OwnedChunk`]), into
//! the writer's own memory for discarded bytes, or into a [`Block`] for a length that comes later.
//! This module keeps no references to any of them. They stay valid until the packet ends, or, in a
//! chunk, until the next range is requested; the callers of these functions promise not to use them
//! longer.
//!
//! [`OwnedChunk`]: crate::chunk::OwnedChunk

use std::ptr::{self, NonNull};

use ferretto_wire::{Sink, redundant_length};

use super::ChunkSink;
use super::state::State;
use crate::chunk::{OwnedChunk, WIDE};
use crate::patch::PatchList;

/// The largest number of lengths whose memory is kept for others.
const SPARE: usize = 16;

/// The initial size of the memory for discarded packets.
const SCRATCH: usize = 4096;

/// Memory for a part of a packet.
#[derive(Clone, Copy, Debug)]
pub struct RawRange {
    /// The first byte of the packet's part in this range.
    pub begin: *mut u8,
    /// The address to write to next.
    pub cursor: *mut u8,
    /// One past the last byte.
    pub end: *mut u8,
    /// The number of bytes of the packet before `begin`.
    pub before: u64,
}

/// Plain memory at a fixed address, which others may write to even while this value is moved.
#[derive(Debug)]
struct Block {
    memory: NonNull<[u8]>,
}

// SAFETY: a block is memory without thread affinity that its owner alone frees.
unsafe impl Send for Block {}

impl Block {
    fn new(size: usize) -> Self {
        let memory = Box::leak(vec![0; size].into_boxed_slice());
        Self {
            memory: NonNull::from(memory),
        }
    }

    fn start(&self) -> *mut u8 {
        self.memory.cast::<u8>().as_ptr()
    }

    fn size(&self) -> usize {
        self.memory.len()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: made from a box in `new` and freed only here.
        drop(unsafe { Box::from_raw(self.memory.as_ptr()) });
    }
}

/// The bytes in which an announced length is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnnouncedField {
    /// The current chunk, at this offset of the payload.
    InChunk(usize),
    /// A chunk already released: this entry of the patch list.
    Patch(u64),
    /// None: the chunk was abandoned.
    Discarded,
}

/// An announced length, which will be written to `value`.
#[derive(Debug)]
struct Announced {
    field: AnnouncedField,
    value: Block,
}

impl Announced {
    /// Returns the length, once its first byte is not zero.
    fn value(&self) -> Option<[u8; WIDE]> {
        // SAFETY: the block has four bytes. All writes to them are on this thread, before or after.
        let value = unsafe { self.value.start().cast::<[u8; WIDE]>().read_unaligned() };
        (value[0] != 0).then_some(value)
    }
}

/// The lengths and the memory of packets written by address.
#[derive(Debug, Default)]
pub(super) struct Raw {
    announced: Vec<Announced>,
    /// Memory for the lengths announced next.
    spare: Vec<Block>,
    /// Memory for discarded packets; the last block is in use.
    scratch: Vec<Block>,
}

impl Raw {
    /// Prepares the release of the current chunk. Returns true if it has lengths that come later.
    pub(super) fn leave_lengths_behind(&mut self, chunk_id: u32, patches: &mut PatchList) -> bool {
        let mut any = false;
        for length in &mut self.announced {
            if let AnnouncedField::InChunk(at) = length.field {
                length.field = AnnouncedField::Patch(patches.push(chunk_id, at as u16));
                any = true;
            }
        }
        any
    }

    /// Gives up the lengths in the current chunk, whose part of the packet is lost.
    pub(super) fn abandon(&mut self) {
        for length in &mut self.announced {
            if let AnnouncedField::InChunk(_) = length.field {
                length.field = AnnouncedField::Discarded;
            }
        }
    }

    /// Passes on the lengths that have been written. If the packet is `complete`, also passes on
    /// the others, since the service would wait for them.
    fn write_lengths(&mut self, complete: bool, chunk: &mut OwnedChunk, patches: &mut PatchList) {
        let mut index = 0;
        while let Some(length) = self.announced.get(index) {
            let value = match length.value() {
                Some(value) => value,
                None if complete => redundant_length(0),
                None => {
                    index += 1;
                    continue;
                }
            };
            match length.field {
                AnnouncedField::InChunk(at) => chunk.overwrite(at, value),
                AnnouncedField::Patch(number) => patches.fill(number, value),
                AnnouncedField::Discarded => {}
            }
            let written = self.announced.remove(index).value;
            if self.spare.len() < SPARE {
                self.spare.push(written);
            }
        }
    }

    /// Returns memory for a length, with zeros.
    fn length(&mut self) -> Block {
        let Some(block) = self.spare.pop() else {
            return Block::new(WIDE);
        };
        // SAFETY: the block has four bytes, and no length uses it any more.
        unsafe {
            block
                .start()
                .cast::<[u8; WIDE]>()
                .write_unaligned([0; WIDE])
        };
        block
    }

    /// Returns memory of at least this size, and its actual size.
    fn scratch(&mut self, size: usize) -> (*mut u8, usize) {
        if let Some(block) = self.scratch.last()
            && block.size() >= size
        {
            return (block.start(), block.size());
        }
        let block = Block::new(size.max(SCRATCH));
        let memory = (block.start(), block.size());
        // The smaller block stays: lengths may still be written to it.
        self.scratch.push(block);
        memory
    }
}

impl ChunkSink {
    fn raw(&mut self) -> &mut Raw {
        self.raw.get_or_insert_default()
    }

    /// Starts a packet whose length field does not move.
    #[inline]
    pub(crate) fn start_raw(&mut self) -> RawRange {
        self.start_with(true);
        self.raw_range(1)
    }

    /// Notes that all bytes before `cursor` have been written.
    #[inline]
    pub(crate) fn advance_raw(&mut self, cursor: *mut u8) {
        // Discarded bytes are counted at the end of their range.
        if matches!(self.state, State::Writing(_)) {
            self.adopt(cursor);
        }
    }

    /// Continues in a new range with space for `size` bytes. If no chunk is that large, discards
    /// the packet.
    pub(crate) fn next_raw(&mut self, cursor: *mut u8, size: usize) -> RawRange {
        self.adopt(cursor);
        self.continue_raw(size);
        self.raw_range(size)
    }

    /// Appends bytes, in as many ranges as necessary.
    pub(crate) fn append_raw(&mut self, cursor: *mut u8, mut bytes: &[u8]) -> RawRange {
        self.adopt(cursor);
        while matches!(self.state, State::Writing(_)) {
            let written = self.chunk.append(bytes);
            bytes = &bytes[written..];
            if bytes.is_empty() {
                break;
            }
            self.continue_raw(1);
        }
        if self.state == State::Discarding {
            self.discard(bytes.len());
        }
        self.raw_range(1)
    }

    /// Announces that the four bytes at `field` are a length that comes later, and returns the
    /// address to write it to; null if it need not be written.
    pub(crate) fn announce_raw(&mut self, cursor: *mut u8, field: *mut u8) -> *mut u8 {
        let State::Writing(fragment) = self.state else {
            return ptr::null_mut();
        };
        self.adopt(cursor);
        let at = (field as usize).wrapping_sub(self.chunk.payload() as usize);
        let is_inside = at
            .checked_add(WIDE)
            .is_some_and(|end| at >= fragment.at + WIDE && end <= self.chunk.used());
        if !is_inside {
            return ptr::null_mut();
        }
        self.chunk.overwrite(at, [0; WIDE]);
        let value = self.raw().length();
        let address = value.start();
        let field = AnnouncedField::InChunk(at);
        self.raw().announced.push(Announced { field, value });
        address
    }

    /// Ends the packet. Its length stays four bytes long: moving the bytes just written in small
    /// pieces would take longer than everything else.
    #[inline]
    pub(crate) fn end_raw(&mut self, cursor: *mut u8) {
        self.adopt(cursor);
        self.write_raw_lengths(true);
        let State::Writing(fragment) = self.state else {
            return self.finish_packet();
        };
        self.written += self.position();
        let length = self.chunk.used() - fragment.at - WIDE;
        let length = redundant_length(length as u32);
        self.chunk.overwrite(fragment.at, length);
        self.leave_packet();
    }

    /// Returns the current range, with space for `size` bytes if its bytes are discarded.
    #[inline]
    fn raw_range(&mut self, size: usize) -> RawRange {
        let State::Writing(fragment) = self.state else {
            let before = self.position();
            let (begin, size) = self.raw().scratch(size);
            return RawRange {
                begin,
                cursor: begin,
                end: begin.wrapping_add(size),
                before,
            };
        };
        let payload = self.chunk.payload();
        let start = fragment.at + WIDE;
        RawRange {
            begin: payload.wrapping_add(start),
            cursor: payload.wrapping_add(self.chunk.used()),
            end: payload.wrapping_add(self.chunk.used() + self.chunk.free()),
            before: self.origin.wrapping_add(start as u64),
        }
    }

    /// Counts the bytes written up to `cursor`. An address outside the range is ignored.
    #[inline]
    fn adopt(&mut self, cursor: *mut u8) {
        if matches!(self.state, State::Writing(_)) {
            let used = (cursor as usize).wrapping_sub(self.chunk.payload() as usize);
            self.chunk.set_used(used);
        } else if let Some(block) = self.raw.as_ref().and_then(|raw| raw.scratch.last()) {
            let written = (cursor as usize).wrapping_sub(block.start() as usize);
            if written <= block.size() {
                self.discard(written);
            }
        }
    }

    /// Continues in another chunk that has space for `size` bytes.
    fn continue_raw(&mut self, size: usize) {
        if !matches!(self.state, State::Writing(_)) {
            return;
        }
        self.write_raw_lengths(false);
        self.continue_packet();
        if let State::Writing(fragment) = self.state
            && self.chunk.free() < size
        {
            self.abandon_packet(fragment);
        }
    }

    #[inline]
    fn write_raw_lengths(&mut self, complete: bool) {
        if let Some(raw) = &mut self.raw {
            raw.write_lengths(complete, &mut self.chunk, &mut self.patches);
            if complete {
                raw.scratch.truncate(1);
            }
        }
    }
}
