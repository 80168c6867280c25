//! The writer of a thread, and the packets that it writes.

use std::fmt;
use std::ops::{Deref, DerefMut};

use ferretto_wire::{Encoder, Sink};

use crate::arbiter::Arbiter;
use crate::commit::FlushCallback;
use crate::policy::ExhaustedPolicy;
use crate::primitive::Arc;
use crate::sink::{ChunkSink, Deliver, RawRange};
use crate::startup::Target;

/// Writes the packets of one thread, in order, as one sequence.
///
/// Packets go straight into shared memory. A packet that does not fit continues in the next chunk,
/// whatever its length. Dropping the writer releases its chunk.
///
/// After a fork, the child's copy of a writer must not be used to write: it discards most packets,
/// but both processes share the chunk that the writer held at the time. Flushing or dropping the
/// copy is safe.
#[derive(Debug)]
pub struct TraceWriter {
    pub(crate) sink: ChunkSink,
}

impl TraceWriter {
    /// Returns a writer that discards everything.
    pub fn null() -> Self {
        Self {
            sink: ChunkSink::null(),
        }
    }

    /// Returns a writer that passes each packet to `deliver` as soon as it ends, with `sequence` as
    /// its `trusted_packet_sequence_id`. Packets written by address are discarded.
    pub fn local(sequence: u32, deliver: Deliver) -> Self {
        Self {
            sink: ChunkSink::local(sequence, deliver),
        }
    }

    /// Returns the id of the writer within its producer; 0 if it discards everything.
    pub fn id(&self) -> u16 {
        self.sink.id()
    }

    /// Returns the id of its central buffer; 0 if the writer discards everything, or if the buffer
    /// had no id yet.
    pub fn target_buffer(&self) -> u16 {
        self.sink.target()
    }

    /// Returns the number of times that the writer has run out of chunks.
    #[inline]
    pub fn drop_count(&self) -> u64 {
        self.sink.drop_count()
    }

    /// Returns true if packets are currently discarded.
    pub fn is_dropping(&self) -> bool {
        self.sink.is_dropping()
    }

    /// Returns the number of bytes of packets written so far, including discarded ones.
    #[inline]
    pub fn written(&self) -> u64 {
        self.sink.written()
    }

    /// Starts a packet. It ends when the returned value is dropped.
    #[inline]
    pub fn new_packet(&mut self) -> Packet<'_> {
        self.sink.start_packet();
        Packet {
            encoder: Encoder::new(&mut self.sink),
        }
    }

    /// Appends an encoded packet. For short packets this is faster than encoding them in place.
    #[inline]
    pub fn write_packet(&mut self, packet: &[u8]) {
        self.sink.append_packet(packet);
    }

    /// Releases the packets so far, and commits them at once: if the connection accepts it now, the
    /// commit has been sent when this returns. `callback` is called when the service has processed
    /// it, or never if the connection is lost before. A writer that discards everything calls it at
    /// once.
    pub fn flush(&mut self, callback: Option<FlushCallback>) {
        self.sink.flush(callback);
    }
}

impl Arbiter {
    /// Creates a writer for a central buffer. If the arbiter is closed or all 32767 ids are in use,
    /// the writer discards everything.
    pub fn create_writer(
        self: &Arc<Self>,
        target_buffer: u16,
        policy: ExhaustedPolicy,
    ) -> TraceWriter {
        let writer = self.create_writer_for(Target::Buffer(target_buffer), policy);
        self.wake();
        writer
    }

    /// Creates a writer as [`Arbiter::create_writer`] does, but does not wake the owner of the
    /// connection. The caller calls [`Arbiter::poll_registration`] itself.
    pub fn create_writer_quietly(
        self: &Arc<Self>,
        target_buffer: u16,
        policy: ExhaustedPolicy,
    ) -> TraceWriter {
        self.create_writer_for(Target::Buffer(target_buffer), policy)
    }

    /// Creates a writer for a buffer without an id, represented by `reservation` until
    /// [`Arbiter::resolve_reservation`] resolves it.
    ///
    /// While there is such a reservation, no output is sent, and so no chunks are freed: all
    /// writers drop packets that find no space, even with the policy to wait. If the reservation is
    /// already resolved, this is a regular writer.
    pub fn create_startup_writer(
        self: &Arc<Self>,
        reservation: u16,
        policy: ExhaustedPolicy,
    ) -> TraceWriter {
        let writer = self.create_writer_for(Target::Reserved(reservation), policy);
        self.wake();
        writer
    }

    fn create_writer_for(self: &Arc<Self>, target: Target, policy: ExhaustedPolicy) -> TraceWriter {
        match self.register_writer(target) {
            Some(writer) => TraceWriter {
                sink: ChunkSink::new(Arc::clone(self), writer, policy),
            },
            None => TraceWriter::null(),
        }
    }
}

/// Writes packets by address, as programs compiled against the C interface do: they write between
/// two pointers, and ask for more memory when they reach the second.
pub trait WriteByAddress {
    /// Starts a packet. It ends with [`end_raw_packet`](Self::end_raw_packet).
    fn start_raw_packet(&mut self) -> RawRange;

    /// Notes that all bytes before `cursor` have been written.
    ///
    /// # Safety
    ///
    /// `cursor` is in the last returned range, and the bytes of the range before `cursor` have been
    /// written.
    unsafe fn advance_raw(&mut self, cursor: *mut u8);

    /// Continues in a new range with space for `size` bytes. If no chunk is that large, discards
    /// the packet.
    ///
    /// # Safety
    ///
    /// As for [`advance_raw`](Self::advance_raw). The old range is not written to any more.
    unsafe fn next_raw_range(&mut self, cursor: *mut u8, size: usize) -> RawRange;

    /// Appends bytes, in as many ranges as necessary.
    ///
    /// # Safety
    ///
    /// As for [`next_raw_range`](Self::next_raw_range).
    unsafe fn append_raw(&mut self, cursor: *mut u8, bytes: &[u8]) -> RawRange;

    /// Announces that the four bytes at `field` are a length that comes later. Returns the address
    /// to write it to, the first byte not zero; null if it need not be written.
    ///
    /// # Safety
    ///
    /// As for [`advance_raw`](Self::advance_raw). The returned address is used on this thread,
    /// before the packet ends.
    unsafe fn announce_raw(&mut self, cursor: *mut u8, field: *mut u8) -> *mut u8;

    /// Ends the packet. Its addresses must not be used any more.
    ///
    /// # Safety
    ///
    /// As for [`advance_raw`](Self::advance_raw).
    unsafe fn end_raw_packet(&mut self, cursor: *mut u8);
}

impl WriteByAddress for TraceWriter {
    #[inline]
    fn start_raw_packet(&mut self) -> RawRange {
        self.sink.start_raw()
    }

    #[inline]
    unsafe fn advance_raw(&mut self, cursor: *mut u8) {
        self.sink.advance_raw(cursor);
    }

    #[inline]
    unsafe fn next_raw_range(&mut self, cursor: *mut u8, size: usize) -> RawRange {
        self.sink.next_raw(cursor, size)
    }

    #[inline]
    unsafe fn append_raw(&mut self, cursor: *mut u8, bytes: &[u8]) -> RawRange {
        self.sink.append_raw(cursor, bytes)
    }

    #[inline]
    unsafe fn announce_raw(&mut self, cursor: *mut u8, field: *mut u8) -> *mut u8 {
        self.sink.announce_raw(cursor, field)
    }

    #[inline]
    unsafe fn end_raw_packet(&mut self, cursor: *mut u8) {
        self.sink.end_raw(cursor);
    }
}

/// A packet being written: an [`Encoder`] of TracePacket's fields.
pub struct Packet<'a> {
    encoder: Encoder<'a, ChunkSink>,
}

impl<'a> Deref for Packet<'a> {
    type Target = Encoder<'a, ChunkSink>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.encoder
    }
}

impl DerefMut for Packet<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.encoder
    }
}

impl Drop for Packet<'_> {
    #[inline]
    fn drop(&mut self) {
        self.encoder.sink().finish_packet();
    }
}

impl fmt::Debug for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Packet").field(&self.encoder).finish()
    }
}

impl Packet<'_> {
    /// Returns the number of bytes of the packet so far.
    pub fn position(&mut self) -> u64 {
        self.encoder.sink().position()
    }
}
