//! The records of a trace, one after the other.

use std::io::{self, BufRead, Read};

use super::MAX_PACKET_BYTES;

/// `Trace.packet`.
const TRACE_PACKET: u32 = 1;

/// One step through a stream of `Trace` fields. Offsets are where the record begins.
pub(super) enum Record {
    Packet(u64),
    /// A packet with more bytes than are read, and how many; skipped.
    TooLarge(u64, u64),
    /// A field of `Trace` that is no packet; skipped.
    Other,
    End,
    Truncated(u64),
    Damaged(u64),
}

#[derive(Debug)]
pub(super) struct Records<B> {
    pub(super) input: B,
    pub(super) offset: u64,
    /// Where the record that was read last begins.
    pub(super) start: u64,
    /// Bytes of the largest packet that is read.
    limit: u64,
}

enum Number {
    Value(u64),
    End,
    Truncated,
    Malformed,
}

impl<B: BufRead> Records<B> {
    pub(super) fn new(input: B, limit: u64) -> Self {
        Self {
            input,
            offset: 0,
            start: 0,
            limit,
        }
    }

    pub(super) fn read(&mut self, packet: &mut Vec<u8>) -> io::Result<Record> {
        let start = self.offset;
        self.start = start;
        let tag = match self.number()? {
            Number::Value(tag) => tag,
            Number::End => return Ok(Record::End),
            Number::Truncated => return Ok(Record::Truncated(start)),
            Number::Malformed => return Ok(Record::Damaged(start)),
        };
        let (field, wire_type) = (tag >> 3, tag & 7);
        if field == 0 || field > u64::from(u32::MAX) {
            return Ok(Record::Damaged(start));
        }
        let length = match wire_type {
            0 => return self.skip_varint(start),
            1 => 8,
            5 => 4,
            2 => match self.number()? {
                Number::Value(length) if length <= MAX_PACKET_BYTES => length,
                Number::Value(_) | Number::Malformed => return Ok(Record::Damaged(start)),
                Number::End | Number::Truncated => return Ok(Record::Truncated(start)),
            },
            _ => return Ok(Record::Damaged(start)),
        };
        let is_packet = wire_type == 2 && field == u64::from(TRACE_PACKET);
        let mut rest = (&mut self.input).take(length);
        let is_read = is_packet && length <= self.limit;
        let got = if is_read {
            packet.clear();
            // Grows with what is really there, not with what the length claims.
            rest.read_to_end(packet)? as u64
        } else {
            io::copy(&mut rest, &mut io::sink())?
        };
        self.offset += got;
        Ok(match got == length {
            false => Record::Truncated(start),
            true if is_read => Record::Packet(start),
            true if is_packet => Record::TooLarge(start, length),
            true => Record::Other,
        })
    }

    fn skip_varint(&mut self, start: u64) -> io::Result<Record> {
        Ok(match self.number()? {
            Number::Value(_) => Record::Other,
            Number::End | Number::Truncated => Record::Truncated(start),
            Number::Malformed => Record::Damaged(start),
        })
    }

    fn number(&mut self) -> io::Result<Number> {
        let mut value = 0u64;
        for i in 0..ferretto_wire::MAX_VARINT_LENGTH {
            let Some(byte) = self.byte()? else {
                return Ok(if i == 0 {
                    Number::End
                } else {
                    Number::Truncated
                });
            };
            value |= u64::from(byte & 0x7f) << (7 * i).min(63);
            if byte & 0x80 == 0 {
                return Ok(Number::Value(value));
            }
        }
        Ok(Number::Malformed)
    }

    fn byte(&mut self) -> io::Result<Option<u8>> {
        loop {
            match self.input.fill_buf() {
                Ok([]) => return Ok(None),
                Ok([byte, ..]) => {
                    let byte = *byte;
                    self.input.consume(1);
                    self.offset += 1;
                    return Ok(Some(byte));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
