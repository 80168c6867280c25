//! The central trace buffers, which hold chunks between shared memory and the consumer.
//!
//! All buffers have the same engine. Chunks are stored one after the other in a ring, exactly the
//! bytes that hold fragments. Each sequence (a writer of a producer) has a small index of its
//! chunks in order. Reading walks the ring from the oldest chunk and remembers its position, so
//! that a chunk is visited once, not once per batch. At each chunk it reads the chunks of its
//! sequence in order up to that one. With [`Semantics::V1`] it instead goes from sequence to
//! sequence, by producer id, then writer id, and reads all of each. A sequence whose next packet is
//! incomplete (a piece is missing, a patch is pending, the chunk was scraped) is set aside until it
//! changes, and does not block others.
//!
//! Invariants:
//! - Only complete packets are returned: all pieces are present, all patches applied.
//! - The packets of a sequence are returned in the order of chunk ids (which wrap at 2^32), each
//!   once.
//! - Losses before a packet are reported with it, by cause ([`Loss`]).
//! - No input causes a panic, and memory stays within the configured size and an index of eight
//!   bytes per chunk. Payloads are parsed on every read, since patches change them.
//!
//! The behaviour is that of upstream's `TraceBufferV2`, or, with [`Semantics::V1`], the observable
//! behaviour of upstream's first engine. Where upstream's reports losses too often, too late or not
//! at all, this one is exact:
//! - A gap of chunk ids is reported once, when the first packet after it is read. A chunk that
//!   arrives before that is not missing; one that arrives after it is refused.
//! - The same holds for a chunk that was scraped and overwritten, and whose rest never came.
//! - The end of a packet does not wait for a patch of the packet after it.

mod entries;
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

pub use crate::ids::{ProducerId, WriterId};
pub use ferretto_format::Loss;
pub use packet::{Fragments, Packet};
pub use patch::Patch;
pub(crate) use stats::HISTOGRAM_THRESHOLDS;
pub use stats::{BufferStats, HISTOGRAM_BUCKETS, WriterStats};
pub use vms::{VmAbort, VmError, VmSetup, VmState};

use packet::Piece;
use read::{Current, Cursor};
use ring::{Ring, flag};
use sequence::{Consumed, Sequences};
use stats::Histograms;
use vms::Machines;

/// The sender of packets, as vouched for by the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Identity {
    /// The user id.
    pub uid: u32,
    /// The process id, if known.
    pub pid: Option<i32>,
    /// The machine of the process; 0 is the machine of the service.
    pub machine_id: u32,
}

/// The behaviour of a full buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// The oldest chunks are overwritten.
    #[default]
    Ring,
    /// Further chunks are discarded, for good.
    Discard,
}

/// The upstream engine whose behaviour a buffer has.
///
/// The engines differ in the order of writers, in the value of `previous_packet_dropped`, and in
/// when a buffer with [`Policy::Discard`] stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Semantics {
    /// `BufferConfig.experimental_mode` unset. Writers are read one after the other, by producer
    /// and number. Every loss is reported as 1, and the first packet of each writer reports one. A
    /// discarding buffer reuses the space of chunks already read, and stops at the first chunk that
    /// would overwrite unread data.
    V1,
    /// `TRACE_BUFFER_V2`. Packets are read approximately in the order of writing. A loss is
    /// reported with its cause, and the start of a writer is not a loss. A discarding buffer stops
    /// at the first chunk that does not fit before its end.
    #[default]
    V2,
}

/// Options of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferOptions {
    /// The size in bytes, from 1 to 2^32 - 1; rounded up to a multiple of 4096.
    pub size: u64,
    /// The behaviour of the buffer when it is full.
    pub policy: Policy,
    /// The upstream engine whose behaviour it has.
    pub semantics: Semantics,
}

impl BufferOptions {
    /// Returns options for a ring of `size` bytes with [`Semantics::V2`].
    pub fn ring(size: u64) -> Self {
        Self {
            size,
            policy: Policy::Ring,
            semantics: Semantics::V2,
        }
    }

    /// Returns options for a discarding buffer of `size` bytes with [`Semantics::V2`].
    pub fn discard(size: u64) -> Self {
        Self {
            policy: Policy::Discard,
            ..Self::ring(size)
        }
    }
}

/// The reason why a buffer could not be created.
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

/// A chunk of a producer. The service knows the producer and its identity; all other values are
/// chosen by the producer.
#[derive(Debug, Clone, Copy)]
pub struct Chunk<'a> {
    /// The producer that sent it.
    pub producer: ProducerId,
    /// The sender, as far as it is known.
    pub identity: Identity,
    /// The writer of the chunk.
    pub writer: WriterId,
    /// The position of the chunk in its sequence, modulo 2^32.
    pub id: u32,
    /// The number of fragments that start in the chunk.
    pub fragments: u16,
    /// Bit 1: the first fragment continues the last one of the previous chunk. Bit 2: the last
    /// fragment continues in the next chunk. Bit 4: the last fragment has sizes still to be
    /// patched. Other bits are ignored.
    pub flags: u8,
    /// True if the writer has finished the chunk. The last fragment of an unfinished, scraped chunk
    /// must not be read yet.
    pub complete: bool,
    /// The chunk without its header, in private memory; at most 65535 bytes.
    pub payload: &'a [u8],
}

/// A trace buffer. See the [module documentation](self).
#[derive(Debug)]
pub struct TraceBuffer {
    ring: Ring,
    options: BufferOptions,
    /// The position of the next chunk.
    write: Cursor,
    /// The position of the next record to read.
    read: Cursor,
    sequences: Sequences,
    /// The chunk of the last packet, if it contains more. Any change of the buffer resets it.
    current: Option<Current>,
    /// The slots of sequences to read before `read` advances: those that stalled before it and have
    /// changed since. Empty with [`Semantics::V1`].
    ready: VecDeque<u32>,
    /// Set for a discarding buffer that is full.
    sealed: bool,
    /// Set for a clone.
    read_only: bool,
    stats: BufferStats,
    histograms: Histograms,
    /// The pieces of the last returned packet.
    pieces: Vec<Piece>,
    /// See [`pieces_examined`](Self::pieces_examined).
    examined: u64,
    /// The machines that get packets before they are overwritten.
    vms: Option<Box<Machines>>,
}

impl TraceBuffer {
    /// Creates a buffer. Its address space is reserved at once, but memory is only used as it is
    /// written.
    ///
    /// # Errors
    ///
    /// Fails if the size is not possible or there is not enough memory.
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

    /// Returns a copy that next returns the same packets as this buffer, but not those already
    /// read. Its counters of reads start at zero; all other counters and the histograms are kept.
    /// It refuses chunks and patches.
    ///
    /// # Errors
    ///
    /// Fails if there is not enough memory. This buffer is unchanged.
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

    /// Returns an empty buffer to replace this one, for `transfer_on_clone` and
    /// `clear_before_clone`. It has the same settings and sequences. Packets not yet read from this
    /// buffer are reported as lost, and applied to the states of machines.
    ///
    /// # Errors
    ///
    /// Fails if there is not enough memory.
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

    /// Returns the options of the buffer.
    pub fn options(&self) -> BufferOptions {
        self.options
    }

    /// Returns the capacity in bytes, after rounding.
    pub fn size(&self) -> u64 {
        self.stats.buffer_size
    }

    /// Returns the largest number of bytes in use so far.
    pub fn used_size(&self) -> u64 {
        ring::bytes(self.ring.used())
    }

    /// Returns the memory of the buffer in bytes, including its index.
    pub fn memory_usage(&self) -> u64 {
        let index = self.sequences.memory() + self.histograms.memory();
        let vms = self.vms.as_ref().map_or(0, |machines| machines.memory());
        self.used_size() + index as u64 + vms
    }

    /// Returns true if a chunk was ever stored.
    pub fn has_data(&self) -> bool {
        self.ring.used() > 0
    }

    /// Returns the number of known writers, including those without chunks in the buffer.
    pub fn sequences(&self) -> usize {
        self.sequences.len()
    }

    /// Returns the counters.
    pub fn stats(&self) -> BufferStats {
        self.stats
    }

    /// Returns the number of chunks examined to reassemble packets that span several chunks: a
    /// measure of work.
    pub fn pieces_examined(&self) -> u64 {
        self.examined
    }

    /// Returns the fill levels of each writer's chunks, in no particular order.
    pub fn writer_stats(&self) -> impl Iterator<Item = &WriterStats> {
        self.histograms.iter()
    }

    /// Marks a sequence as changed, so that it is read again.
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
