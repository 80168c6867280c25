//! Reading a trace.

use std::time::Duration;

use ferretto_ipc::port::consumer::{Reply, Request};
use ferretto_proto::ReadBuffersRequest;

use super::{Consumer, Deadline, ReadError};
use crate::packets::Packets;

impl Consumer {
    /// Reads what the session has recorded and passes each packet, an encoded TracePacket, to `receive`. What was read
    /// is gone from the buffers. While `receive` is busy the service waits, and keeps nothing in memory for it.
    ///
    /// To write a trace file, each packet has to be preceded by `0x0a` and its length as a varint.
    ///
    /// # Errors
    ///
    /// If nothing comes for as long as `limit`, or `receive` fails. What remains of the trace is lost then: drop the
    /// consumer.
    pub fn read_buffers<E>(
        &mut self,
        limit: Duration,
        mut receive: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), ReadError<E>> {
        const METHOD: &str = "ReadBuffers";
        let request = Request::ReadBuffers(ReadBuffersRequest::default());
        let id = self.invoke(request)?;
        let mut packets = Packets::new();
        loop {
            let reply = self.wait_for(id, METHOD, Deadline::after(limit))?;
            if let Ok(Reply::ReadBuffers(reply)) = reply.result {
                for slice in reply.slices {
                    let is_last = slice.last_slice_for_packet == Some(true);
                    let data = slice.data.unwrap_or_default();
                    if let Some(received) = packets.add(&data, is_last, &mut receive)? {
                        received.map_err(ReadError::Receiver)?;
                    }
                }
            }
            if !reply.has_more {
                return Ok(());
            }
        }
    }
}
