//! Short packets put together from registers, for the accelerator of track events: less code than
//! [`TraceWriter::write_packet`], for those that fit the chunk at hand.

use crate::writer::TraceWriter;

pub use crate::sink::ShortPacket;

/// Starts a packet of at most 126 bytes that is put together from registers, in place. `None` if
/// that cannot be done at the moment, which is rare: there is little room, or it is the first
/// packet.
#[inline(always)]
pub fn begin(writer: &mut TraceWriter) -> Option<ShortPacket<'_>> {
    writer.sink.short_packet()
}
