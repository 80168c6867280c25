//! Where data sources put their packets.

use std::fmt;

use ferretto_shm::{FlushCallback, TraceWriter};

/// A destination for packets: a trace writer, or a list in tests.
pub trait PacketSink: fmt::Debug + Send {
    /// Writes one packet, given as the encoded fields of a `TracePacket`.
    fn write_packet(&mut self, fields: &[u8]);

    /// Hands everything written so far to the service; `done` is called once it is there.
    fn flush(&mut self, done: Option<FlushCallback>);
}

/// Keeps packets in memory.
impl PacketSink for Vec<Vec<u8>> {
    fn write_packet(&mut self, fields: &[u8]) {
        self.push(fields.to_vec());
    }

    fn flush(&mut self, done: Option<FlushCallback>) {
        if let Some(done) = done {
            done();
        }
    }
}

impl PacketSink for TraceWriter {
    fn write_packet(&mut self, fields: &[u8]) {
        Self::write_packet(self, fields);
    }

    fn flush(&mut self, done: Option<FlushCallback>) {
        Self::flush(self, done);
    }
}
