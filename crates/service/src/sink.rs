//! The place that packets go to: a file, or replies.

/// A place for packets.
pub(crate) trait PacketSink {
    /// Takes a packet given in pieces, none longer than [`MAX_SLICE`](crate::limits::MAX_SLICE).
    fn packet<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]> + Clone);

    /// Returns true if anything more would be thrown away.
    fn is_full(&self) -> bool {
        false
    }
}
