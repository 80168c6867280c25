//! Writes packets into chunks: fragments, continuation, lengths that come later, loss.
//!
//! There are four ways to write packets. Each covers cases that the others cannot, or only much
//! more slowly: field by field ([`Sink`]), as a whole
//! ([`append_packet`](ChunkSink::append_packet)), from registers ([`ShortPacket`]), and by a C
//! program that only has addresses ([`raw`]). All of them take the sink from one [`State`] to the
//! next. All but the last produce the same bytes for the same packet: C programs were given four
//! bytes for each length, which keep that size.

mod lengths;
mod local;
mod raw;
mod short;
mod shortage;
mod state;

pub use local::Deliver;
pub use raw::RawRange;
pub use short::ShortPacket;

use std::fmt;

use ferretto_wire::{Encoder, MAX_NESTED_LENGTH, Mark, Sink, redundant_length};

use crate::arbiter::{Arbiter, NewWriter};
use crate::chunk::{COMPACT, OwnedChunk, WIDE};
use crate::commit::FlushCallback;
use crate::layout::{ChunkFlags, ChunkHeader};
use crate::patch::PatchList;
use crate::policy::ExhaustedPolicy;
use crate::primitive::Arc;
use lengths::{LengthField, Lengths};
use shortage::Shortage;
use state::{Fragment, State, Width};

/// The largest number of fragments that a writer starts in a chunk; one more may be counted ahead.
const MAX_FRAGMENTS: u16 = 1022;

/// The number of free bytes that the start of a packet needs.
const MIN_FREE: usize = 12;

/// The field of TracePacket in the first packet after a loss, and its value: data was lost because
/// the shared memory was full.
const PREVIOUS_PACKET_DROPPED: (u32, u64) = (42, 257);

/// The field of TracePacket in a writer's first packet.
const FIRST_PACKET_ON_SEQUENCE: u32 = 87;

/// The destination of packets.
enum Destination {
    /// Packets are discarded.
    Nowhere,
    /// Packets go into chunks of shared memory.
    Shared(Arc<Arbiter>),
    /// Packets go to a function.
    Function(Box<local::Local>),
}

/// The memory that a [`TraceWriter`](crate::TraceWriter) appends to. Outside this crate it only
/// appears as the type parameter of a packet's encoder.
pub struct ChunkSink {
    state: State,
    chunk: OwnedChunk,
    /// The position of the payload's first byte within the packet, wrapping.
    origin: u64,
    /// The open nested messages.
    lengths: Lengths,
    destination: Destination,
    id: u16,
    target: u16,
    policy: ExhaustedPolicy,
    next_chunk: u32,
    /// Set if the next packet is the sequence's first.
    is_new: bool,
    shortage: Shortage,
    drop_count: u64,
    written: u64,
    patches: PatchList,
    /// State for packets written by address, from the first one on.
    raw: Option<Box<raw::Raw>>,
}

impl ChunkSink {
    /// Creates a sink that writes to shared memory.
    pub(crate) fn new(arbiter: Arc<Arbiter>, writer: NewWriter, policy: ExhaustedPolicy) -> Self {
        let mut sink = Self::null();
        sink.destination = Destination::Shared(arbiter);
        sink.state = State::Idle;
        sink.id = writer.id;
        sink.target = writer.target;
        sink.next_chunk = writer.first_chunk;
        sink.policy = policy;
        sink
    }

    /// Creates a sink that discards everything.
    pub(crate) fn null() -> Self {
        Self {
            state: State::Dropping,
            chunk: OwnedChunk::detached(),
            origin: 0,
            lengths: Lengths::default(),
            destination: Destination::Nowhere,
            id: 0,
            target: 0,
            policy: ExhaustedPolicy::Drop,
            next_chunk: 0,
            is_new: true,
            shortage: Shortage::default(),
            drop_count: 0,
            written: 0,
            patches: PatchList::default(),
            raw: None,
        }
    }

    pub(crate) fn id(&self) -> u16 {
        self.id
    }

    pub(crate) fn target(&self) -> u16 {
        self.target
    }

    #[inline]
    pub(crate) fn drop_count(&self) -> u64 {
        self.drop_count
    }

    pub(crate) fn is_dropping(&self) -> bool {
        let is_function = matches!(self.destination, Destination::Function(_));
        matches!(self.state, State::Discarding | State::Dropping) && !is_function
    }

    #[inline]
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    #[inline]
    fn arbiter(&self) -> Option<&Arc<Arbiter>> {
        match &self.destination {
            Destination::Shared(arbiter) => Some(arbiter),
            _ => None,
        }
    }

    /// Starts a packet: finds space, reserves the fragment's length, and counts it.
    #[inline]
    pub(crate) fn start_packet(&mut self) {
        self.start_with(self.lengths.is_packet_wide());
    }

    /// Starts a packet whose length field initially has four bytes, or else one.
    #[inline]
    fn start_with(&mut self, is_wide: bool) {
        if !self.is_ready_for(MIN_FREE) {
            self.start_elsewhere(is_wide);
        } else if let Some(at) = self.chunk.begin_length(is_wide) {
            self.begin_fragment(at, is_wide);
        }
    }

    /// Returns true if there is a chunk in which the next packet is counted and may start.
    #[inline]
    fn is_ready_for(&self, free: usize) -> bool {
        self.state == State::Ready
            && self.chunk.free() >= free
            && self.chunk.count() <= MAX_FRAGMENTS
    }

    #[inline]
    fn begin_fragment(&mut self, at: usize, is_wide: bool) {
        let width = if is_wide { Width::Wide } else { Width::Narrow };
        self.state = State::Writing(Fragment { at, width });
        self.origin = 0u64.wrapping_sub(self.chunk.used() as u64);
    }

    /// Starts a packet in another chunk, or discards it.
    #[cold]
    #[inline(never)]
    fn start_elsewhere(&mut self, is_wide: bool) {
        // The last packet may have been leaked instead of dropped.
        self.finish_packet();
        if self.is_ready_for(MIN_FREE) {
            return self.start_with(is_wide);
        }
        let recovered = self.chunk_for_new_packet();
        self.origin = 0;
        match self.chunk.begin_length(is_wide) {
            Some(at) => {
                self.begin_fragment(at, is_wide);
                self.chunk.count_fragment();
            }
            None => self.state = State::Discarding,
        }
        if recovered || self.is_new {
            let is_new = std::mem::take(&mut self.is_new);
            let mut packet = Encoder::new(self);
            if recovered {
                packet.varint(PREVIOUS_PACKET_DROPPED.0, PREVIOUS_PACKET_DROPPED.1);
            }
            if is_new {
                packet.bool(FIRST_PACKET_ON_SEQUENCE, true);
            }
        }
    }

    /// Ends the packet. Does nothing if there is none.
    #[inline]
    pub(crate) fn finish_packet(&mut self) {
        match self.state {
            State::Writing(fragment) => {
                self.close_to(0);
                self.written += self.position();
                self.finish_fragment(fragment);
                self.leave_packet();
            }
            State::Discarding => self.finish_discarded(),
            State::Idle | State::Ready | State::Dropping => {}
        }
    }

    /// Counts the next packet ahead or releases the chunk, after the length of the fragment was
    /// filled in.
    #[inline]
    fn leave_packet(&mut self) {
        if self.chunk.free() == 0 || self.is_crowded() {
            self.give_chunk_back();
        } else {
            self.chunk.count_fragment();
            self.state = State::Ready;
        }
        self.send_patches();
    }

    #[cold]
    fn finish_discarded(&mut self) {
        self.close_to(0);
        self.written += self.position();
        self.state = State::Dropping;
        if let Destination::Function(local) = &mut self.destination {
            local.deliver();
        }
        self.send_patches();
    }

    /// Fills in the length of the fragment.
    #[inline]
    fn finish_fragment(&mut self, Fragment { at, width }: Fragment) {
        if width == Width::Narrow && self.chunk.end_narrow(at, COMPACT - 1) {
            return;
        }
        self.finish_wide_fragment(at, width);
    }

    fn finish_wide_fragment(&mut self, at: usize, width: Width) {
        if width == Width::Narrow {
            self.chunk.widen(at);
        }
        let length = self.chunk.used() - at - WIDE;
        let is_wide = width == Width::Continued || length >= COMPACT;
        if is_wide {
            self.chunk.overwrite(at, redundant_length(length as u32));
        } else {
            self.chunk.compact(at);
        }
        self.lengths.note_packet(is_wide);
    }

    /// Appends an encoded packet, with the same result as the calls above. In the common case,
    /// where the packet was counted ahead and fits, that is only a copy and a store of the count.
    #[inline]
    pub(crate) fn append_packet(&mut self, packet: &[u8]) {
        if self.is_usual() && self.chunk.append_fragment(packet, MIN_FREE, MAX_FRAGMENTS) {
            self.written += packet.len() as u64;
        } else {
            self.append_packet_slowly(packet);
        }
    }

    /// Returns true if the next packet was counted ahead and only needs to be written.
    #[inline]
    fn is_usual(&self) -> bool {
        self.state == State::Ready && !self.is_crowded()
    }

    #[cold]
    fn append_packet_slowly(&mut self, packet: &[u8]) {
        self.start_packet();
        self.write(packet);
        self.finish_packet();
    }

    /// Returns true if there are too many writers to keep a chunk between packets.
    #[inline]
    fn is_crowded(&self) -> bool {
        self.arbiter().is_some_and(|arbiter| arbiter.is_crowded())
    }

    pub(crate) fn flush(&mut self, callback: Option<FlushCallback>) {
        self.finish_packet();
        self.give_chunk_back();
        match &self.destination {
            Destination::Shared(arbiter) => {
                // There may be space now: the next packet looks for it.
                self.shortage.end_wait(arbiter.retry_after());
                arbiter.flush(callback);
                // The process may be about to end, and the thread that sends may never run again.
                arbiter.send_now();
            }
            _ => callback.into_iter().for_each(|callback| callback()),
        }
    }

    /// Acquires a chunk in the middle of a packet, or starts to discard.
    #[cold]
    fn continue_packet(&mut self) {
        let State::Writing(fragment) = self.state else {
            return;
        };
        let Some(next) = self.acquire(self.policy, 1, ChunkFlags::FIRST_CONTINUES) else {
            self.abandon_packet(fragment);
            return;
        };
        let has_holes = self.leave_lengths_behind(fragment);
        let position = self.position();
        let length = self.chunk.used() - fragment.at - WIDE;
        self.chunk
            .overwrite(fragment.at, redundant_length(length as u32));
        let flags = if has_holes {
            ChunkFlags::LAST_CONTINUES.with(ChunkFlags::NEEDS_PATCHING)
        } else {
            ChunkFlags::LAST_CONTINUES
        };
        self.chunk.set_flags(flags);
        self.give_chunk_back();
        self.chunk = next;
        self.chunk.append(&[0; WIDE]);
        self.state = State::Writing(Fragment {
            at: 0,
            width: Width::Continued,
        });
        self.lengths.note_packet(true);
        self.origin = position.wrapping_sub(WIDE as u64);
    }

    /// Makes the fragment's length and the open lengths in the current chunk wide, and moves the
    /// latter to the patch list. Returns true if there are any.
    fn leave_lengths_behind(&mut self, fragment: Fragment) -> bool {
        let Some(chunk_id) = self.chunk.chunk_id() else {
            return false;
        };
        self.lengths.widen(&mut self.chunk);
        let mut moved = 0;
        if fragment.width == Width::Narrow {
            self.chunk.widen(fragment.at);
            moved = WIDE - 1;
            // The moved bytes are not part of the packet.
            self.origin = self.origin.wrapping_sub(moved as u64);
        }
        let mut any = self
            .lengths
            .leave_behind(chunk_id, moved, &mut self.patches);
        if let Some(raw) = &mut self.raw {
            any |= raw.leave_lengths_behind(chunk_id, &mut self.patches);
        }
        any
    }

    fn acquire(
        &mut self,
        policy: ExhaustedPolicy,
        count: u16,
        flags: ChunkFlags,
    ) -> Option<OwnedChunk> {
        let header = self.next_header(count, flags);
        let chunk = self.arbiter()?.acquire(header, policy)?;
        self.next_chunk = self.next_chunk.wrapping_add(1);
        Some(chunk)
    }

    /// Acquires a chunk that begins with a packet, of the pages that are freed first.
    fn acquire_near(&mut self) -> Option<OwnedChunk> {
        let header = self.next_header(0, ChunkFlags::default());
        let chunk = self.arbiter()?.acquire_near(header)?;
        self.next_chunk = self.next_chunk.wrapping_add(1);
        Some(chunk)
    }

    fn next_header(&self, count: u16, flags: ChunkFlags) -> ChunkHeader {
        ChunkHeader {
            writer_id: self.id,
            chunk_id: self.next_chunk,
            count,
            flags,
        }
    }

    /// Releases the chunk, if there is one.
    fn give_chunk_back(&mut self) {
        if !self.chunk.is_held() {
            return;
        }
        if self.state == State::Ready {
            // Corrects the count: an empty fragment yields no packet.
            self.chunk.append(&[0]);
        }
        self.state = State::Idle;
        let chunk = std::mem::replace(&mut self.chunk, OwnedChunk::detached());
        if let Destination::Shared(arbiter) = &self.destination {
            arbiter.return_chunk(chunk, &mut self.patches);
        }
    }

    #[inline]
    fn send_patches(&mut self) {
        if self.patches.is_ready()
            && let Destination::Shared(arbiter) = &self.destination
        {
            arbiter.send_patches(self.id, &mut self.patches);
        }
    }

    #[cold]
    fn write_rest(&mut self, mut rest: &[u8]) {
        while !rest.is_empty() {
            if !matches!(self.state, State::Writing(_)) {
                if let Destination::Function(local) = &mut self.destination {
                    local.append(rest);
                }
                self.discard(rest.len());
                return;
            }
            if self.chunk.free() == 0 {
                self.continue_packet();
            }
            rest = &rest[self.chunk.append(rest)..];
        }
    }

    fn discard(&mut self, length: usize) {
        self.origin = self.origin.wrapping_add(length as u64);
        self.shortage.discarded += length as u64;
    }

    /// Opens a nested message if the chunk has no space for its length.
    #[cold]
    fn open_elsewhere(&mut self, is_wide: bool) -> LengthField {
        self.continue_packet();
        if let Some(at) = self.chunk.begin_length(is_wide) {
            return LengthField::in_chunk(at, is_wide);
        }
        self.discard(WIDE);
        match &mut self.destination {
            Destination::Function(local) => LengthField::Local(local.begin_length()),
            _ => LengthField::Nowhere,
        }
    }

    /// Closes the innermost open messages until `depth` are left.
    #[inline]
    fn close_to(&mut self, depth: usize) {
        while self.lengths.depth() > depth {
            self.close_innermost();
        }
    }

    /// Fills in the length of the innermost open message.
    #[inline]
    fn close_innermost(&mut self) {
        let Some(open) = self.lengths.pop() else {
            return;
        };
        if let LengthField::Narrow(at) = open.field
            && self.chunk.end_narrow(at, COMPACT)
        {
            return;
        }
        self.close_long(open.field, open.start);
    }

    fn close_long(&mut self, field: LengthField, start: u64) {
        let length = self.position().wrapping_sub(start);
        let length = u32::try_from(length).unwrap_or(MAX_NESTED_LENGTH);
        let bytes = redundant_length(length);
        let is_wide = length as usize > COMPACT;
        match field {
            LengthField::Narrow(at) => {
                self.chunk.widen(at);
                self.chunk.overwrite(at, bytes);
            }
            LengthField::Wide(at) if is_wide => self.chunk.overwrite(at, bytes),
            LengthField::Wide(at) => self.chunk.compact(at),
            LengthField::Patch(number) => self.patches.fill(number, bytes),
            LengthField::Local(at) => {
                if let Destination::Function(local) = &mut self.destination {
                    local.end_length(at, length);
                }
            }
            LengthField::Nowhere => {}
        }
        self.lengths.note(is_wide);
    }
}

impl Sink for ChunkSink {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        if !self.chunk.append_whole(bytes) {
            self.write_rest(bytes);
        }
    }

    #[inline]
    fn write_short(&mut self, bytes: &[u8; 16], length: usize) {
        if !self.chunk.append_short(bytes, length) {
            self.write_rest(&bytes[..length.min(16)]);
        }
    }

    #[inline]
    fn position(&self) -> u64 {
        self.origin.wrapping_add(self.chunk.used() as u64)
    }

    #[inline]
    fn open(&mut self) -> Mark {
        let is_wide = self.lengths.is_next_wide();
        let field = match self.chunk.begin_length(is_wide) {
            Some(at) => LengthField::in_chunk(at, is_wide),
            None => self.open_elsewhere(is_wide),
        };
        let start = self.position();
        let slot = self.lengths.push(start, field);
        Mark { start, slot }
    }

    #[inline]
    fn close(&mut self, mark: Mark) {
        self.close_to(mark.slot);
    }
}

impl Drop for ChunkSink {
    fn drop(&mut self) {
        self.finish_packet();
        let had_chunk = self.chunk.is_held();
        self.give_chunk_back();
        if let Some(arbiter) = self.arbiter() {
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
            .field("state", &self.state)
            .finish()
    }
}
