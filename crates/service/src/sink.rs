//! The destination of packets: a file, or replies.

/// A destination of packets.
pub(crate) trait PacketSink {
    /// Adds a packet given in pieces of at most [`MAX_SLICE`](crate::limits::MAX_SLICE) bytes.
    fn packet<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]> + Clone);

    /// Returns true if further packets would be dropped.
    fn is_full(&self) -> bool {
        false
    }
}
