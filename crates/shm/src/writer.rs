//! The writer a thread holds, and the packets it writes.

use std::fmt;
use std::ops::{Deref, DerefMut};

use ferretto_wire::{Encoder, Sink};

use crate::arbiter::Arbiter;
use crate::commit::FlushCallback;
use crate::primitive::Arc;
use crate::sink::ChunkSink;

/// What a writer does when there is no free chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExhaustedPolicy {
    /// Discards until there is one. The first packet after that says so.
    #[default]
    Drop,
    /// Waits, up to some 29 seconds, then ends the process.
    StallThenAbort,
    /// Waits, up to some 29 seconds, then discards.
    StallThenDrop,
}

/// Writes the packets of one thread, in order, as one sequence.
///
/// Packets go straight into shared memory. One that does not fit continues in the next chunk, however long it is.
/// Dropping the writer hands over what it holds.
///
/// After a fork, the child's copy of a writer must not be used to write; it discards most of it, but the two processes
/// share the chunk the writer held at the time. Flushing or dropping the copy is safe.
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

    pub(crate) fn bound(
        arbiter: Arc<Arbiter>,
        id: u16,
        first_chunk: u32,
        target: u16,
        policy: ExhaustedPolicy,
    ) -> Self {
        Self {
            sink: ChunkSink::new(arbiter, id, first_chunk, target, policy),
        }
    }

    /// The writer's number within its producer; 0 if it discards everything.
    pub fn id(&self) -> u16 {
        self.sink.id()
    }

    /// The central buffer it writes to; 0 if it discards everything, or if the buffer had no number yet.
    pub fn target_buffer(&self) -> u16 {
        self.sink.target()
    }

    /// How often it has run out of chunks.
    pub fn drop_count(&self) -> u64 {
        self.sink.drop_count()
    }

    /// Whether packets are being discarded at the moment.
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

    /// Appends a packet that is encoded already. For short packets this is quicker than encoding them in place.
    #[inline]
    pub fn write_packet(&mut self, packet: &[u8]) {
        self.sink.append_packet(packet);
    }

    /// Hands over what was written so far and has it committed at once: if the connection can take it now, it has been
    /// sent when this returns. `callback` is called when the service has it; never if the connection is lost before. A
    /// writer that discards everything calls it right away.
    pub fn flush(&mut self, callback: Option<FlushCallback>) {
        self.sink.flush(callback);
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
