//! The records of a trace.

use std::io::{self, Read};
use std::ops::Range;

use ferretto_wire::{MAX_VARINT_LENGTH, decode_varint};

use super::window::Window;
use crate::limits::MAX_PACKET_BYTES;

/// `Trace.packet`.
const TRACE_PACKET: u64 = 1;

/// The next record of a stream of `Trace` fields. The first number is the offset of the record.
pub(super) enum Record {
    /// A packet, with the range of its bytes for [`Records::bytes`].
    Packet(u64, Range<usize>),
    /// A packet that exceeds the limit, with its size; it is skipped.
    TooLarge(u64, u64),
    /// A field of `Trace` that is not a packet; it is skipped.
    Other,
    End,
    Truncated(u64),
    Damaged(u64),
}

/// The records of a stream. The bytes of a packet stay in the buffer until the next call.
#[derive(Debug)]
pub(super) struct Records<R> {
    pub(super) window: Window<R>,
    /// The number of bytes of all records that were read.
    pub(super) offset: u64,
    /// The offset of the last record that was read.
    pub(super) start: u64,
    /// The size of the largest packet that is read.
    limit: u64,
}

/// The beginning of a record: its kind and the length of its content.
struct Head {
    bytes: usize,
    is_packet: bool,
    length: u64,
}

/// The reason for a missing [`Head`].
enum NoHead {
    /// More bytes are needed.
    Incomplete,
    Damaged,
}

impl<R: Read> Records<R> {
    /// Creates the records of `input`, which is read `capacity` bytes at a time.
    pub(super) fn new(input: R, capacity: usize, limit: u64) -> Self {
        Self {
            window: Window::new(input, capacity),
            offset: 0,
            start: 0,
            limit,
        }
    }

    /// Returns a range of bytes of the last record.
    #[inline]
    pub(super) fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.window.at(range)
    }

    /// Reads a record.
    #[inline]
    pub(super) fn read(&mut self) -> io::Result<Record> {
        let start = self.offset;
        self.start = start;
        let head = loop {
            match Head::parse(self.window.bytes()) {
                Ok(head) => break head,
                Err(NoHead::Damaged) => return Ok(Record::Damaged(start)),
                Err(NoHead::Incomplete) if self.window.fill()? => {}
                Err(NoHead::Incomplete) => {
                    let left = self.window.bytes().len();
                    self.offset += left as u64;
                    return Ok(match left {
                        0 => Record::End,
                        _ => Record::Truncated(start),
                    });
                }
            }
        };
        let length = match usize::try_from(head.length) {
            Ok(length) if head.is_packet && head.length <= self.limit => length,
            _ => return self.skip(&head),
        };
        let whole = head.bytes + length;
        // Grows with the bytes that exist, not with the claimed length.
        while self.window.bytes().len() < whole {
            if !self.window.fill()? {
                self.offset += self.window.bytes().len() as u64;
                return Ok(Record::Truncated(start));
            }
        }
        self.offset += whole as u64;
        let range = self.window.consume(whole);
        Ok(Record::Packet(start, range.start + head.bytes..range.end))
    }

    /// Skips a record without keeping it.
    fn skip(&mut self, head: &Head) -> io::Result<Record> {
        self.offset += head.bytes as u64;
        self.window.consume(head.bytes);
        let mut left = head.length;
        while left > 0 {
            let there = self.window.bytes().len();
            let there = usize::try_from(left).map_or(there, |left| left.min(there));
            self.window.consume(there);
            self.offset += there as u64;
            left -= there as u64;
            if left > 0 && !self.window.fill()? {
                return Ok(Record::Truncated(self.start));
            }
        }
        Ok(if head.is_packet {
            Record::TooLarge(self.start, head.length)
        } else {
            Record::Other
        })
    }
}

impl Head {
    #[inline]
    fn parse(bytes: &[u8]) -> Result<Self, NoHead> {
        let (tag, digits) = varint(bytes)?;
        let (field, wire_type) = (tag >> 3, tag & 7);
        if field == 0 || field > u64::from(u32::MAX) {
            return Err(NoHead::Damaged);
        }
        let mut head = Self {
            bytes: digits,
            is_packet: false,
            length: 0,
        };
        let rest = bytes.get(digits..).unwrap_or_default();
        match wire_type {
            0 => head.bytes += varint(rest)?.1,
            1 => head.length = 8,
            5 => head.length = 4,
            2 => {
                let (length, digits) = varint(rest)?;
                if length > MAX_PACKET_BYTES {
                    return Err(NoHead::Damaged);
                }
                head.bytes += digits;
                head.length = length;
                head.is_packet = field == TRACE_PACKET;
            }
            _ => return Err(NoHead::Damaged),
        }
        Ok(head)
    }
}

#[inline]
fn varint(bytes: &[u8]) -> Result<(u64, usize), NoHead> {
    decode_varint(bytes).ok_or(match bytes.len() {
        ..MAX_VARINT_LENGTH => NoHead::Incomplete,
        _ => NoHead::Damaged,
    })
}
