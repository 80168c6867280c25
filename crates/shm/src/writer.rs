//! The writer a thread holds, and the packets it writes.

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
/// Packets go straight into shared memory. One that does not fit continues in the next chunk,
/// however long it is. Dropping the writer hands over its chunk.
///
/// After a fork, the child's copy of a writer must not be used to write; it discards most of it,
/// but the two processes share the chunk the writer held at the time. Flushing or dropping the copy
/// is safe.
#[derive(Debug)]
pub struct TraceWriter {
    pub(crate) sink: ChunkSink,
}

impl TraceWriter {
    /// A writer that discards everything.
    pub fn null() -> Self {
        Self {
            sink: ChunkSink::null(),
        }
    }

    /// A writer whose packets are passed to `deliver`, whole and as soon as they end, with
    /// `sequence` as their `trusted_packet_sequence_id`. Packets written by address are discarded.
    pub fn local(sequence: u32, deliver: Deliver) -> Self {
        Self {
            sink: ChunkSink::local(sequence, deliver),
        }
    }

    /// The writer's number within its producer; 0 if it discards everything.
    pub fn id(&self) -> u16 {
        self.sink.id()
    }

    /// The central buffer it writes to; 0 if it discards everything, or if the buffer had no number
    /// yet.
    pub fn target_buffer(&self) -> u16 {
        self.sink.target()
    }

    /// Returns how often it has run out of chunks.
    pub fn drop_count(&self) -> u64 {
        self.sink.drop_count()
    }

    /// Returns whether packets are being discarded at the moment.
    pub fn is_dropping(&self) -> bool {
        self.sink.is_dropping()
    }

    /// Bytes of packets written so far, discarded ones included.
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

    /// Appends a packet that is encoded already. For short packets this is quicker than encoding
    /// them in place.
    #[inline]
    pub fn write_packet(&mut self, packet: &[u8]) {
        self.sink.append_packet(packet);
    }

    /// Hands over the packets so far and has them committed at once: if the connection can take it
    /// now, it has been sent when this returns. `callback` is called when the service has it; never
    /// if the connection is lost before. A writer that discards everything calls it right away.
    pub fn flush(&mut self, callback: Option<FlushCallback>) {
        self.sink.flush(callback);
    }
}

impl Arbiter {
    /// Makes a writer for a central buffer. If the arbiter is closed or all 32767 numbers are in
    /// use, the writer discards everything.
    pub fn create_writer(
        self: &Arc<Self>,
        target_buffer: u16,
        policy: ExhaustedPolicy,
    ) -> TraceWriter {
        let writer = self.create_writer_for(Target::Buffer(target_buffer), policy);
        self.wake();
        writer
    }

    /// Makes a writer as [`Arbiter::create_writer`] does, for callers that then ask for
    /// [`Arbiter::poll_registration`] themselves: the owner of the connection is not woken.
    pub fn create_writer_quietly(
        self: &Arc<Self>,
        target_buffer: u16,
        policy: ExhaustedPolicy,
    ) -> TraceWriter {
        self.create_writer_for(Target::Buffer(target_buffer), policy)
    }

    /// Makes a writer for a buffer that has no number yet, known as `reservation` until
    /// [`Arbiter::resolve_reservation`] gives it one.
    ///
    /// While there is such a reservation nothing at all is sent, so chunks are not freed either:
    /// all writers drop packets that find no room, even with the policy to wait. If the reservation
    /// is resolved already, this is a writer like any other.
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

/// Writing packets by address, as programs do that were compiled against a C interface: they write
/// between two pointers and ask for more when they reach the second.
pub trait WriteByAddress {
    /// Starts a packet. It ends with [`end_raw_packet`](Self::end_raw_packet).
    fn start_raw_packet(&mut self) -> RawRange;

    /// Notes that everything before `cursor` has been written.
    ///
    /// # Safety
    ///
    /// `cursor` lies in the range that was given out last, and the bytes of it before `cursor` have
    /// been written.
    unsafe fn advance_raw(&mut self, cursor: *mut u8);

    /// Goes on in a new range with room for `size` bytes or, if that is too much, discards the
    /// packet.
    ///
    /// # Safety
    ///
    /// As for [`advance_raw`](Self::advance_raw). The old range is not written to any more.
    unsafe fn next_raw_range(&mut self, cursor: *mut u8, size: usize) -> RawRange;

    /// Appends bytes, in as many ranges as it takes.
    ///
    /// # Safety
    ///
    /// As for [`next_raw_range`](Self::next_raw_range).
    unsafe fn append_raw(&mut self, cursor: *mut u8, bytes: &[u8]) -> RawRange;

    /// Announces that the four bytes at `place` are a length that will be known later, and returns
    /// where to write it then, the first byte not zero; null if it need not be written.
    ///
    /// # Safety
    ///
    /// As for [`advance_raw`](Self::advance_raw). The returned address is used on this thread,
    /// before the packet ends.
    unsafe fn announce_raw(&mut self, cursor: *mut u8, place: *mut u8) -> *mut u8;

    /// Ends the packet. None of the addresses given out for it may be used any more.
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
    unsafe fn announce_raw(&mut self, cursor: *mut u8, place: *mut u8) -> *mut u8 {
        self.sink.announce_raw(cursor, place)
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
    /// Bytes of the packet so far.
    pub fn position(&mut self) -> u64 {
        self.encoder.sink().position()
    }
}
