//! Short packets put together from registers, for the accelerator of track events: less code than
//! [`TraceWriter::write_packet`], for those that fit the chunk at hand.

use crate::writer::TraceWriter;

pub use crate::sink::ShortPacket;

/// Appends a packet that is encoded already: the first bytes of two words, the first one lowest, and how many of each;
/// at most seven and sixteen. The quickest way there is. Returns whether it could be done; if not, which is rare,
/// nothing has happened: there is little room, or it is the first packet.
#[inline(always)]
#[must_use = "if not, the packet has to be written in another way"]
pub fn write(writer: &mut TraceWriter, head: (u64, usize), tail: (u128, usize)) -> bool {
    writer.sink.append_short_packet(head, tail)
}

/// Starts a packet of at most 126 bytes that is put together from registers, in place. `None` if that cannot be done at
/// the moment, which is rare: there is little room, or it is the first packet.
#[inline(always)]
pub fn begin(writer: &mut TraceWriter) -> Option<ShortPacket<'_>> {
    writer.sink.short_packet()
}
