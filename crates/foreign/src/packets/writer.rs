//! Writes the packets of a trace.

use std::io::{self, Write};

use ferretto_format::PACKET_TAG;
use ferretto_proto::fields::{trace_packet, trace_uuid};
use ferretto_wire::Encoder;

use crate::packets::ImportError;

/// The sequence of packets that need no incremental state.
pub(crate) const FIRST_SEQUENCE: u32 = 1;

/// Writes packets, the trace's UUID first if it has one.
pub(crate) struct Writer<'a> {
    out: &'a mut dyn Write,
    packet: Vec<u8>,
    uuid: Option<[u8; 16]>,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(out: &'a mut dyn Write, uuid: Option<[u8; 16]>) -> Self {
        Self {
            out,
            packet: Vec::new(),
            uuid,
        }
    }

    /// Writes a packet of `sequence`.
    pub(crate) fn packet(
        &mut self,
        sequence: u32,
        write: impl FnOnce(&mut Encoder<'_, Vec<u8>>),
    ) -> Result<(), ImportError> {
        if let Some(uuid) = self.uuid.take() {
            let half = |bytes: &[u8]| bytes.iter().fold(0, |n, &byte| (n << 8) | u64::from(byte));
            self.one(FIRST_SEQUENCE, |packet| {
                packet.nested(trace_packet::TRACE_UUID, |message| {
                    message.varint(trace_uuid::MSB, half(&uuid[..8]));
                    message.varint(trace_uuid::LSB, half(&uuid[8..]));
                });
            })?;
        }
        self.one(sequence, write)
    }

    fn one(
        &mut self,
        sequence: u32,
        write: impl FnOnce(&mut Encoder<'_, Vec<u8>>),
    ) -> Result<(), ImportError> {
        self.packet.clear();
        let mut packet = Encoder::new(&mut self.packet);
        packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, sequence.into());
        write(&mut packet);
        self.write().map_err(ImportError::Write)
    }

    fn write(&mut self) -> io::Result<()> {
        let mut length = [0; 10];
        let count = ferretto_wire::encode_varint(self.packet.len() as u64, &mut length);
        self.out.write_all(&[PACKET_TAG])?;
        self.out.write_all(&length[..count])?;
        self.out.write_all(&self.packet)
    }

    /// Flushes the trace.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.out.flush()
    }
}
