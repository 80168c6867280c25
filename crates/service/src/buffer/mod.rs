//! The central trace buffers: where chunks wait between shared memory and the consumer.
//!
//! One engine serves every buffer. Chunks are stored one behind the other in a ring, exactly the
//! bytes that hold fragments; each writer of each producer has a small index of its chunks in
//! order. Reading goes through the ring from the oldest chunk on and remembers where it was, so a
//! chunk is visited once, not once per batch; for each chunk it meets, it reads that writer's
//! chunks in order up to there. With [`Semantics::V1`] it goes from writer to writer instead, by
//! number of the producer, then of the writer, and reads all there is of each. A writer whose next
//! packet is not complete (a piece is missing, a patch is due, the chunk was scraped) is put aside
//! until something of it changes, and holds up nobody else.
//!
//! Rules every method keeps:
//! - Only complete packets come out: all pieces there, all patches applied.
//! - Packets of one writer come out in the order of chunk ids (which wrap at 2^32), each once.
//! - Losses before a packet are reported with it, by cause ([`Loss`]).
//! - No input makes it panic, and memory stays within the configured size and an index of eight
//!   bytes a chunk. Bytes are judged anew on every read, since patches change them.
//!
//! The behaviour is that of upstream's `TraceBufferV2` unless [`Semantics::V1`] asks for what its
//! first engine showed to the outside. Where upstream's tells of a loss too often, too late or not
//! at all, this one is exact:
//! - A gap of chunk ids is told once, and when the first packet after it is read; a chunk that
//!   arrives before that is not missing, one that arrives after it is refused.
//! - So is a chunk that was scraped and overwritten, and whose rest never came.
//! - The end of a packet does not wait for a patch of the packet behind it.

mod fragment;
mod packet;
mod patch;
mod read;
mod ring;
mod sequence;
mod stats;
mod turnover;
mod vms;
mod write;

use std::collections::VecDeque;

pub use ferretto_format::Loss;
pub use packet::{Fragments, Packet};
pub use patch::Patch;
pub use stats::{BufferStats, HISTOGRAM_BUCKETS, HISTOGRAM_THRESHOLDS, WriterStats};
pub use vms::{VmAbort, VmError, VmSetup, VmState};

use packet::Piece;
use read::{Current, Cursor};
use ring::{Ring, flag};
use sequence::{Consumed, Sequences};
use stats::Histograms;
use vms::Machines;

/// Number the service gives to a producer.
pub type ProducerId = u16;
/// Number a producer gives to one of its writers.
pub type WriterId = u16;

/// Facts that the transport vouches for about a producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Identity {
    /// User id.
    pub uid: u32,
    /// Process id, if known.
    pub pid: Option<i32>,
    /// Machine it runs on; 0 is the machine of the service.
    pub machine_id: u32,
}

/// The behaviour of a buffer that is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// The oldest chunks make room.
    #[default]
    Ring,
    /// The buffer stops taking chunks, for good.
    Discard,
}

/// The one of upstream's engines that the buffer looks like from outside.
///
/// They differ in the order of writers, in the value of `previous_packet_dropped` and in when a
/// buffer with [`Policy::Discard`] stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Semantics {
    /// `BufferConfig.experimental_mode` unset: writers are read one after the other, by producer
    /// and number; a loss is reported as 1 for any cause, and the first packet of each writer
    /// reports one; a discarding buffer reuses what was already read and stops at the first chunk
    /// that would cost unread data.
    V1,
    /// `TRACE_BUFFER_V2`: packets are read about in the order they were written; losses by cause,
    /// none at the start of a writer; a discarding buffer stops at the first chunk that does not
    /// fit before its end.
    #[default]
    V2,
}

/// Settings of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferOptions {
    /// Bytes, from 1 to 2^32 - 1; rounded up to a multiple of 4096.
    pub size: u64,
    /// Its behaviour when it is full.
    pub policy: Policy,
    /// The engine it looks like.
    pub semantics: Semantics,
}

impl BufferOptions {
    /// A ring of `size` bytes with [`Semantics::V2`].
    pub fn ring(size: u64) -> Self {
        Self {
            size,
            policy: Policy::Ring,
            semantics: Semantics::V2,
        }
    }

    /// A discarding buffer of `size` bytes with [`Semantics::V2`].
    pub fn discard(size: u64) -> Self {
        Self {
            policy: Policy::Discard,
            ..Self::ring(size)
        }
    }
}

/// Why a buffer could not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BufferError {
    /// The size is 0 or does not fit 32 bits.
    Size(u64),
    /// The address space could not be reserved.
    OutOfMemory(u64),
}

ferretto_wire::error_text! {
    BufferError {
        Self::Size(bytes) => "a trace buffer of {bytes} bytes is not possible: 1 to 4294967295 are",
        Self::OutOfMemory(bytes) => "not enough memory for a trace buffer of {bytes} bytes",
    }
}

/// A chunk as it came from a producer. Producer and identity are the service's own knowledge; all
/// else is the producer's claim.
#[derive(Debug, Clone, Copy)]
pub struct Chunk<'a> {
    /// The producer that sent it.
    pub producer: ProducerId,
    /// The sender, as far as it is known.
    pub identity: Identity,
    /// Its writer.
    pub writer: WriterId,
    /// Its position among the writer's chunks, modulo 2^32.
    pub id: u32,
    /// Fragments started in it.
    pub fragments: u16,
    /// 1: the first fragment continues the previous chunk's last; 2: the last continues in the next
    /// chunk; 4: the last has sizes still to be patched. Other bits are ignored.
    pub flags: u8,
    /// True if the writer has finished it. A chunk scraped out of shared memory may not be, and
    /// its last fragment is then not yet to be read.
    pub complete: bool,
    /// The chunk without its header, in private memory. No more than 65535 bytes are possible.
    pub payload: &'a [u8],
}

/// A trace buffer. See the [module documentation](self).
#[derive(Debug)]
pub struct TraceBuffer {
    ring: Ring,
    options: BufferOptions,
    /// The place of the next chunk.
    write: Cursor,
    /// The next record to be read.
    read: Cursor,
    sequences: Sequences,
    /// The chunk the last packet was taken from, if there is more in it. Any change of the buffer
    /// ends it.
    current: Option<Current>,
    /// Slots of sequences to be read before `read` goes on: those that stalled behind it and
    /// have changed since. Not with [`Semantics::V1`].
    ready: VecDeque<u32>,
    /// A discarding buffer that is full.
    sealed: bool,
    /// A clone.
    read_only: bool,
    stats: BufferStats,
    histograms: Histograms,
    /// Pieces of the packet returned last.
    pieces: Vec<Piece>,
    /// See [`pieces_examined`](Self::pieces_examined).
    examined: u64,
    /// The machines that packets are offered to before they are overwritten.
    vms: Option<Box<Machines>>,
}

impl TraceBuffer {
    /// Makes a buffer. Its memory is reserved, and fails now or never, but is touched only as it is
    /// written.
    ///
    /// # Errors
    /// If the size is not possible or the memory is not there.
    pub fn new(options: BufferOptions) -> Result<Self, BufferError> {
        let ring = Ring::new(options.size)?;
        let stats = BufferStats {
            buffer_size: ring::bytes(ring.capacity()),
            ..BufferStats::default()
        };
        Ok(Self {
            ring,
            options,
            write: Cursor::default(),
            read: Cursor::default(),
            current: None,
            sequences: Sequences::default(),
            ready: VecDeque::new(),
            sealed: false,
            read_only: false,
            stats,
            histograms: Histograms::default(),
            pieces: Vec::new(),
            examined: 0,
            vms: None,
        })
    }

    /// A copy that returns the same packets next as this one, to be read on its own: packets read
    /// before do not reappear. Counters of reading start at zero; all others, and the histograms,
    /// are kept. It refuses chunks and patches.
    ///
    /// # Errors
    /// If the memory is not there. This buffer is unchanged.
    pub fn try_clone(&self) -> Result<Self, BufferError> {
        Ok(Self {
            ring: self.ring.try_clone()?,
            options: self.options,
            write: self.write,
            read: self.read,
            current: None,
            sequences: self.sequences.clone(),
            ready: self.ready.clone(),
            sealed: self.sealed,
            read_only: true,
            stats: BufferStats {
                bytes_read: 0,
                chunks_read: 0,
                readaheads_succeeded: 0,
                readaheads_failed: 0,
                ..self.stats
            },
            histograms: self.histograms.clone(),
            pieces: Vec::new(),
            examined: 0,
            vms: self
                .vms
                .as_ref()
                .map(|machines| Box::new(machines.copied())),
        })
    }

    /// An empty buffer to take the place of this one, for `transfer_on_clone` and
    /// `clear_before_clone`: with the same settings, and going on where this one was written last.
    /// Packets that were not read from this one are reported as lost, and applied to the states of
    /// machines.
    ///
    /// # Errors
    /// If the memory is not there.
    pub fn new_like(&self) -> Result<Self, BufferError> {
        let last = |at| {
            let header = self.ring.chunk(at)?;
            Some(Consumed {
                id: header.id,
                len: header.len,
                incomplete: header.has(flag::INCOMPLETE),
                aborted: header.has(flag::ABORTED),
            })
        };
        let sequences = self
            .sequences
            .without_chunks(last, Loss::READ_GAP | Loss::PRESENT);
        Ok(Self {
            sequences,
            vms: self.vms_behind()?,
            ..Self::new(self.options)?
        })
    }

    /// The settings it was made with.
    pub fn options(&self) -> BufferOptions {
        self.options
    }

    /// Capacity in bytes, after rounding.
    pub fn size(&self) -> u64 {
        self.stats.buffer_size
    }

    /// Bytes that have ever been in use at once.
    pub fn used_size(&self) -> u64 {
        ring::bytes(self.ring.used())
    }

    /// Bytes of memory it takes, the index included.
    pub fn memory_usage(&self) -> u64 {
        let index = self.sequences.memory() + self.histograms.memory();
        let vms = self.vms.as_ref().map_or(0, |machines| machines.memory());
        self.used_size() + index as u64 + vms
    }

    /// Returns true if anything was ever stored.
    pub fn has_data(&self) -> bool {
        self.ring.used() > 0
    }

    /// Returns how many writers it knows of, those without chunks in the buffer included.
    pub fn sequences(&self) -> usize {
        self.sequences.len()
    }

    /// The counters.
    pub fn stats(&self) -> BufferStats {
        self.stats
    }

    /// Returns the number of chunks that were examined to put together packets that are spread over
    /// several: a measure of work.
    pub fn pieces_examined(&self) -> u64 {
        self.examined
    }

    /// Returns how full each writer's chunks were, in no particular order.
    pub fn writer_stats(&self) -> impl Iterator<Item = &WriterStats> {
        self.histograms.iter()
    }

    /// Marks a sequence as changed, so that reading tries it again.
    fn wake(&mut self, slot: u32) {
        if self.options.semantics == Semantics::V1 {
            self.sequences.give_turn(slot);
        } else if let Some(sequence) = self.sequences.get_mut(slot)
            && std::mem::take(&mut sequence.stalled)
            && !std::mem::replace(&mut sequence.ready, true)
        {
            self.ready.push_back(slot);
        }
    }
}
