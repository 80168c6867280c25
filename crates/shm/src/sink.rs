//! Lays packets out in chunks: fragments, continuation, holes, loss.

mod local;
mod raw;
mod short;

pub use local::Deliver;
pub use raw::RawRange;
pub use short::ShortPacket;

use std::fmt;

use ferretto_wire::{Encoder, MAX_NESTED_LENGTH, Mark, Sink, redundant_length};

use crate::arbiter::Arbiter;
use crate::chunk::{COMPACT, OwnedChunk};
use crate::commit::FlushCallback;
use crate::layout::{ChunkFlags, ChunkHeader};
use crate::patch::PatchList;
use crate::primitive::Arc;
use crate::writer::ExhaustedPolicy;

/// Most fragments a writer starts in a chunk; one more may be counted ahead.
const MAX_FRAGMENTS: u16 = 1022;

/// A packet is not started in less room than this, in bytes.
const MIN_ROOM: usize = 12;

/// Size of a length that is filled in later, in bytes.
const HOLE: usize = 4;

/// The fragment length that marks a packet as abandoned.
const ABANDONED: [u8; HOLE] = [0xff, 0xff, 0xff, 0x7f];

/// Field of TracePacket set in the first packet after a loss, and its value: data was lost, because the shared memory
/// was full.
const PREVIOUS_PACKET_DROPPED: (u32, u64) = (42, 257);

/// Field of TracePacket set in a writer's very first packet.
const FIRST_PACKET_ON_SEQUENCE: u32 = 87;

/// An open nested message.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// Position of its first byte in the packet.
    start: u64,
    length: LengthField,
}

/// Where the length of an open message will be written.
#[derive(Clone, Copy, Debug)]
enum LengthField {
    /// In the current chunk, at this offset of the payload.
    Here(usize),
    /// In a chunk already given away: this entry of the patch list.
    Away(u64),
    /// In memory of the writer's own, at this offset.
    Local(usize),
    /// In a chunk that was abandoned.
    Nowhere,
}

/// The memory a [`TraceWriter`](crate::TraceWriter) appends to. Seen outside this crate only as the type below a
/// packet's encoder.
pub struct ChunkSink {
    /// `None`: discards everything, for good.
    arbiter: Option<Arc<Arbiter>>,
    id: u16,
    target: u16,
    policy: ExhaustedPolicy,
    chunk: OwnedChunk,
    next_chunk: u32,
    /// Position in the packet that the first byte of the payload has or, wrapping, would have.
    origin: u64,
    /// Where the length of the current fragment is, in the payload.
    fragment: usize,
    /// The current fragment continues one of the previous chunk.
    continued: bool,
    in_packet: bool,
    /// The next packet has been counted already, so that a scraper, which skips the last one counted, takes the one
    /// before it.
    inflated: bool,
    /// No chunk could be had: everything is discarded.
    dropping: bool,
    /// Bytes discarded since the last attempt to get a chunk.
    discarded: u64,
    /// That something was discarded is said nowhere yet.
    is_untold: bool,
    first_packet: bool,
    drop_count: u64,
    written: u64,
    open: Vec<Open>,
    patches: PatchList,
    /// For packets written by address, since there was one.
    raw: Option<Box<raw::Raw>>,
    /// Takes the packets in place of shared memory.
    local: Option<Box<local::Local>>,
}

impl ChunkSink {
    pub(crate) fn new(
        arbiter: Arc<Arbiter>,
        id: u16,
        first_chunk: u32,
        target: u16,
        policy: ExhaustedPolicy,
    ) -> Self {
        let mut sink = Self::null();
        sink.arbiter = Some(arbiter);
        sink.id = id;
        sink.target = target;
        sink.policy = policy;
        sink.next_chunk = first_chunk;
        sink.dropping = false;
        sink
    }

    pub(crate) fn null() -> Self {
        Self {
            arbiter: None,
            id: 0,
            target: 0,
            policy: ExhaustedPolicy::Drop,
            chunk: OwnedChunk::detached(),
            next_chunk: 0,
            origin: 0,
            fragment: 0,
            continued: false,
            in_packet: false,
            inflated: false,
            dropping: true,
            discarded: 0,
            is_untold: false,
            first_packet: true,
            drop_count: 0,
            written: 0,
            open: Vec::new(),
            patches: PatchList::default(),
            raw: None,
            local: None,
        }
    }

    pub(crate) fn id(&self) -> u16 {
        self.id
    }

    pub(crate) fn target(&self) -> u16 {
        self.target
    }

    pub(crate) fn drop_count(&self) -> u64 {
        self.drop_count
    }

    pub(crate) fn is_dropping(&self) -> bool {
        self.dropping && self.local.is_none()
    }

    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Starts a packet: finds room, reserves the fragment's length, counts it.
    #[inline]
    pub(crate) fn start_packet(&mut self) {
        if self.in_packet {
            // The last packet was leaked rather than dropped.
            self.finish_packet();
        }
        let number = self.chunk.count() + u16::from(!self.inflated);
        let recovered =
            (self.chunk.room() < MIN_ROOM || number > MAX_FRAGMENTS) && self.chunk_for_new_packet();
        self.send_patches();
        self.in_packet = true;
        self.origin = 0;
        if !self.dropping {
            self.fragment = self.chunk.used();
            self.continued = false;
            self.chunk.append(&[0; HOLE]);
            self.origin = 0u64.wrapping_sub(self.chunk.used() as u64);
            if !std::mem::take(&mut self.inflated) {
                self.chunk.count_fragment();
            }
        }
        if recovered || self.first_packet {
            self.write_sequence_fields(recovered);
        }
    }

    #[cold]
    fn write_sequence_fields(&mut self, recovered: bool) {
        let first = std::mem::take(&mut self.first_packet);
        let mut packet = Encoder::new(self);
        if recovered {
            packet.varint(PREVIOUS_PACKET_DROPPED.0, PREVIOUS_PACKET_DROPPED.1);
        }
        if first {
            packet.bool(FIRST_PACKET_ON_SEQUENCE, true);
        }
    }

    /// Ends the packet; does nothing if there is none.
    #[inline]
    pub(crate) fn finish_packet(&mut self) {
        if !self.in_packet {
            return;
        }
        while !self.open.is_empty() {
            self.close_innermost();
        }
        self.written += self.position();
        self.in_packet = false;
        if self.chunk.is_held() {
            self.close_fragment();
            if self.chunk.room() == 0 || self.is_crowded() {
                self.give_chunk_back();
            } else {
                self.chunk.count_fragment();
                self.inflated = true;
            }
        } else if let Some(local) = &mut self.local {
            local.deliver();
        }
        self.send_patches();
    }

    /// Appends a packet that is complete. Lays it out as the calls above would; but in the usual case, where it has been
    /// counted ahead and fits, all that takes is a copy and a store of the count.
    #[inline]
    pub(crate) fn append_packet(&mut self, packet: &[u8]) {
        if self.is_usual() && self.chunk.append_fragment(packet, MIN_ROOM, MAX_FRAGMENTS) {
            self.written += packet.len() as u64;
        } else {
            self.append_packet_slowly(packet);
        }
    }

    /// Whether the next packet has been counted ahead and all it takes is to write it.
    #[inline]
    fn is_usual(&self) -> bool {
        // Being counted ahead, it is not the first and there is a chunk.
        self.inflated && !self.patches.is_ready() && !self.is_crowded()
    }

    #[cold]
    fn append_packet_slowly(&mut self, packet: &[u8]) {
        self.start_packet();
        self.write(packet);
        self.finish_packet();
    }

    /// Whether there are too many writers to keep a chunk between packets.
    #[inline]
    fn is_crowded(&self) -> bool {
        self.arbiter
            .as_ref()
            .is_some_and(|arbiter| arbiter.is_crowded())
    }

    fn close_fragment(&mut self) {
        let length = self.chunk.used() - self.fragment - HOLE;
        if length < COMPACT && !self.continued {
            self.chunk.compact(self.fragment);
        } else {
            self.chunk
                .overwrite(self.fragment, redundant_length(length as u32));
        }
    }

    pub(crate) fn flush(&mut self, callback: Option<FlushCallback>) {
        self.finish_packet();
        self.give_chunk_back();
        self.send_patches();
        match &self.arbiter {
            Some(arbiter) => {
                // There may be room now: the next packet looks for it.
                self.discarded = arbiter.retry_after();
                arbiter.flush(callback);
                // The process may be about to end, and the thread that would send it may never run again.
                arbiter.send_now();
            }
            None => callback.into_iter().for_each(|callback| callback()),
        }
    }

    /// Gets a chunk at a packet boundary. Returns whether that ends a time of discarding.
    #[cold]
    fn chunk_for_new_packet(&mut self) -> bool {
        let Some(arbiter) = &self.arbiter else {
            return false;
        };
        if self.dropping && self.discarded < arbiter.retry_after() {
            return false;
        }
        let policy = if self.dropping {
            ExhaustedPolicy::Drop
        } else {
            self.policy
        };
        if policy == ExhaustedPolicy::Drop {
            // The old chunk is kept until there is a new one: if there is none, it says so.
            let next = self.acquire(policy, 0, ChunkFlags::default());
            let is_marked = next.is_none() && self.mark_loss();
            self.give_chunk_back();
            return self.begin_chunk(next, is_marked);
        }
        // A writer that waits must not keep others from getting on.
        self.give_chunk_back();
        let next = self.acquire(policy, 0, ChunkFlags::default());
        self.begin_chunk(next, false)
    }

    /// Goes on in a new chunk, or discards, which the last chunk says if `is_marked`. Returns whether that ends a time of
    /// discarding.
    fn begin_chunk(&mut self, chunk: Option<OwnedChunk>, is_marked: bool) -> bool {
        let Some(chunk) = chunk else {
            self.start_dropping(is_marked);
            return false;
        };
        self.chunk = chunk;
        if std::mem::take(&mut self.is_untold)
            && let Some(arbiter) = &self.arbiter
        {
            // The packet that begins now says it.
            arbiter.untold().remove(self.id);
        }
        std::mem::take(&mut self.dropping)
    }

    /// Marks in the current chunk that the packet after its last one is lost. Returns whether there is room for it.
    fn mark_loss(&mut self) -> bool {
        if self.chunk.room() < HOLE
            || self.chunk.count() + u16::from(!self.inflated) > MAX_FRAGMENTS
        {
            return false;
        }
        if !std::mem::take(&mut self.inflated) {
            self.chunk.count_fragment();
        }
        self.chunk.append(&ABANDONED);
        true
    }

    /// Writes a packet that only says that something was lost. Returns whether there was room for it.
    pub(crate) fn tell_loss(&mut self) -> bool {
        let Some(arbiter) = &self.arbiter else {
            return true;
        };
        self.dropping = true;
        self.discarded = arbiter.retry_after();
        self.start_packet();
        self.finish_packet();
        !self.dropping
    }

    /// Gets a chunk in the middle of a packet, or starts to discard.
    #[cold]
    fn continue_packet(&mut self) {
        let position = self.position();
        let Some(next) = self.acquire(self.policy, 1, ChunkFlags::FIRST_CONTINUES) else {
            self.abandon_packet();
            return;
        };
        let length = self.chunk.used() - self.fragment - HOLE;
        self.chunk
            .overwrite(self.fragment, redundant_length(length as u32));
        let flags = if self.leave_holes_behind() {
            ChunkFlags::LAST_CONTINUES.with(ChunkFlags::NEEDS_PATCHING)
        } else {
            ChunkFlags::LAST_CONTINUES
        };
        self.chunk.set_flags(flags);
        self.give_chunk_back();
        self.chunk = next;
        self.chunk.append(&[0; HOLE]);
        self.fragment = 0;
        self.continued = true;
        self.origin = position.wrapping_sub(HOLE as u64);
    }

    /// Moves the lengths that are still open in the current chunk to the patch list. Returns whether there are any.
    fn leave_holes_behind(&mut self) -> bool {
        let Some(chunk_id) = self.chunk.chunk_id() else {
            return false;
        };
        let mut any = false;
        for open in &mut self.open {
            if let LengthField::Here(at) = open.length {
                open.length = LengthField::Away(self.patches.push(chunk_id, at as u16));
                any = true;
            }
        }
        if let Some(raw) = &mut self.raw {
            any |= raw.leave_holes_behind(chunk_id, &mut self.patches);
        }
        any
    }

    /// Marks the packet as lost and discards the rest of it.
    fn abandon_packet(&mut self) {
        let position = self.position();
        self.chunk.overwrite(self.fragment, ABANDONED);
        for open in &mut self.open {
            if let LengthField::Here(_) = open.length {
                open.length = LengthField::Nowhere;
            }
        }
        if let Some(raw) = &mut self.raw {
            raw.abandon();
        }
        self.give_chunk_back();
        self.origin = position;
        self.start_dropping(true);
    }

    fn acquire(
        &mut self,
        policy: ExhaustedPolicy,
        count: u16,
        flags: ChunkFlags,
    ) -> Option<OwnedChunk> {
        let header = ChunkHeader {
            writer_id: self.id,
            chunk_id: self.next_chunk,
            count,
            flags,
        };
        let chunk = self.arbiter.as_ref()?.acquire(header, policy)?;
        self.next_chunk = self.next_chunk.wrapping_add(1);
        Some(chunk)
    }

    fn start_dropping(&mut self, is_marked: bool) {
        if !std::mem::replace(&mut self.dropping, true) {
            self.drop_count += 1;
            if !is_marked && let Some(arbiter) = &self.arbiter {
                self.is_untold = true;
                arbiter.note_loss(self.id);
            }
        }
        self.discarded = 0;
    }

    fn give_chunk_back(&mut self) {
        if !self.chunk.is_held() {
            return;
        }
        if std::mem::take(&mut self.inflated) {
            // Makes the count truthful: an empty fragment, which yields no packet.
            self.chunk.append(&[0]);
        }
        let chunk = std::mem::replace(&mut self.chunk, OwnedChunk::detached());
        if let Some(arbiter) = &self.arbiter {
            arbiter.return_chunk(chunk, &mut self.patches);
        }
    }

    #[inline]
    fn send_patches(&mut self) {
        if self.patches.is_ready()
            && let Some(arbiter) = &self.arbiter
        {
            arbiter.send_patches(self.id, &mut self.patches);
        }
    }

    #[cold]
    fn write_rest(&mut self, mut rest: &[u8]) {
        while !rest.is_empty() {
            if self.dropping {
                if let Some(local) = &mut self.local {
                    local.append(rest);
                }
                self.discard(rest.len());
                return;
            }
            if self.chunk.room() == 0 {
                self.continue_packet();
            }
            rest = &rest[self.chunk.append(rest)..];
        }
    }

    fn discard(&mut self, length: usize) {
        self.origin = self.origin.wrapping_add(length as u64);
        self.discarded += length as u64;
    }

    /// Fills in the length of the innermost open message.
    #[inline]
    fn close_innermost(&mut self) {
        let position = self.position();
        let Some(open) = self.open.pop() else {
            return;
        };
        let length = position.wrapping_sub(open.start);
        let length = u32::try_from(length).unwrap_or(MAX_NESTED_LENGTH);
        match open.length {
            LengthField::Here(at) if length as usize <= COMPACT => self.chunk.compact(at),
            LengthField::Here(at) => self.chunk.overwrite(at, redundant_length(length)),
            LengthField::Away(number) => self.patches.fill(number, redundant_length(length)),
            LengthField::Local(at) => self.close_local(at, length),
            LengthField::Nowhere => {}
        }
    }
}

impl Sink for ChunkSink {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let written = self.chunk.append(bytes);
        if written < bytes.len() {
            self.write_rest(&bytes[written..]);
        }
    }

    #[inline]
    fn write_short(&mut self, bytes: &[u8; 16], length: usize) {
        if !self.chunk.append_short(bytes, length) {
            self.write(&bytes[..length.min(16)]);
        }
    }

    #[inline]
    fn position(&self) -> u64 {
        self.origin.wrapping_add(self.chunk.used() as u64)
    }

    #[inline]
    fn open(&mut self) -> Mark {
        if self.chunk.room() < HOLE && !self.dropping {
            self.continue_packet();
        }
        let length = if self.dropping {
            self.discard(HOLE);
            self.open_local()
        } else {
            let at = self.chunk.used();
            self.chunk.append(&[0; HOLE]);
            LengthField::Here(at)
        };
        let start = self.position();
        self.open.push(Open { start, length });
        Mark {
            start,
            slot: self.open.len() - 1,
        }
    }

    #[inline]
    fn close(&mut self, mark: Mark) {
        while self.open.len() > mark.slot {
            self.close_innermost();
        }
    }
}

impl Drop for ChunkSink {
    fn drop(&mut self) {
        self.finish_packet();
        let had_chunk = self.chunk.is_held();
        self.give_chunk_back();
        if let Some(arbiter) = &self.arbiter {
            if had_chunk {
                arbiter.flush(None);
            }
            arbiter.release_writer(self.id, self.next_chunk);
        }
    }
}

impl fmt::Debug for ChunkSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChunkSink")
            .field("id", &self.id)
            .field("target", &self.target)
            .field("policy", &self.policy)
            .field("chunk", &self.chunk)
            .field("dropping", &self.dropping)
            .finish()
    }
}
