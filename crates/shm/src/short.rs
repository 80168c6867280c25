//! Short packets built from registers, for the fast path of track events. It needs less code than
//! [`TraceWriter::write_packet`], and handles only packets that fit the current chunk.

use crate::writer::TraceWriter;

pub use crate::sink::ShortPacket;

/// Starts a packet of at most 126 bytes that is built in place from registers. `None` if that is
/// not possible at the moment, which is rare: few bytes are free, or it is the first packet.
#[inline(always)]
pub fn begin(writer: &mut TraceWriter) -> Option<ShortPacket<'_>> {
    writer.sink.short_packet()
}
