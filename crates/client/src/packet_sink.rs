//! The destination of a data source's packets.

use std::fmt;

use ferretto_shm::TraceWriter;

/// A destination for packets: a trace writer, or a list in tests.
pub trait PacketSink: fmt::Debug + Send {
    /// Writes one packet, given as the encoded fields of a `TracePacket`.
    fn write_packet(&mut self, fields: &[u8]);

    /// Commits everything written so far.
    fn flush(&mut self) {}

    /// Returns how often packets have been lost here.
    fn losses(&self) -> u64 {
        0
    }
}

/// Keeps packets in memory.
impl PacketSink for Vec<Vec<u8>> {
    fn write_packet(&mut self, fields: &[u8]) {
        self.push(fields.to_vec());
    }
}

impl PacketSink for TraceWriter {
    fn write_packet(&mut self, fields: &[u8]) {
        Self::write_packet(self, fields);
    }

    fn flush(&mut self) {
        Self::flush(self, None);
    }

    fn losses(&self) -> u64 {
        self.drop_count()
    }
}
