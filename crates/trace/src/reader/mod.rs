//! A reader that streams the packets of a trace.

mod damage;
mod error;
mod records;
mod unpack;
mod window;

use std::io::{self, Read};
use std::ops::Range;

use ferretto_format::PACKET_TAG;
use ferretto_format::decompression::{DecompressionBudget, DecompressionLimit};
use ferretto_proto::fields::trace_packet;
use ferretto_wire::{Field, Fields};

pub use self::damage::Damage;
pub use self::error::{ReadError, Truncated};
pub use self::unpack::{Compression, Unpacking};

use self::records::{Record, Records};
use self::unpack::{Inner, Kind, UNPACK_BYTES, needed_window};
use crate::limits::Limits;

/// The number of bytes to read from a file at a time.
const READ_BYTES: usize = 1 << 18;

/// One encoded packet of a trace.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// The encoded `TracePacket`.
    pub bytes: &'a [u8],
    /// The offset of the record in the (decompressed) file, in bytes. For a packet inside of a
    /// compressed one, the offset of the latter.
    pub offset: u64,
}

impl<'a> Packet<'a> {
    /// Returns the fields of the packet.
    pub fn fields(&self) -> Fields<'a> {
        Fields::new(self.bytes)
    }
}

/// Reads the packets of a trace one after another, in the order of the file.
///
/// Any bytes are accepted: memory and decompressed data are bounded by [`Limits`]. An
/// incomplete record at the end of the file ends the trace and is reported by
/// [`truncated`](Self::truncated).
#[derive(Debug)]
pub struct TraceReader<R: Read> {
    outer: Records<Unpacking<R>>,
    inner: Option<InnerRecords>,
    limits: Limits,
    head: [u8; 4],
    packets: u64,
    truncated: Option<Truncated>,
    finished: bool,
}

/// The records inside of a compressed packet.
#[derive(Debug)]
struct InnerRecords {
    records: Records<Inner>,
    offset: u64,
}

impl<R: Read> TraceReader<R> {
    /// Creates a reader that starts at the current position of `input`, which needs no buffering.
    pub fn new(input: R) -> Self {
        Self::with_limits(input, Limits::default())
    }

    /// Creates a reader with other limits.
    pub fn with_limits(input: R, limits: Limits) -> Self {
        Self::of(Unpacking::new(input, limits), limits)
    }

    /// Creates a reader of a trace in a compressed file or an archive, and shares its budget.
    pub fn inside(input: R, limits: Limits, budget: DecompressionBudget) -> Self {
        Self::of(Unpacking::inside(input, limits, budget), limits)
    }

    fn of(input: Unpacking<R>, limits: Limits) -> Self {
        let packet_bytes = limits.packet_bytes();
        Self {
            outer: Records::new(input, READ_BYTES, packet_bytes),
            inner: None,
            limits,
            head: [0; 4],
            packets: 0,
            truncated: None,
            finished: false,
        }
    }

    /// Reads the next packet. Returns `None` at the end of the trace.
    pub fn next_packet(&mut self) -> Result<Option<Packet<'_>>, ReadError> {
        let Some((offset, range)) = self.advance()? else {
            return Ok(None);
        };
        self.packets += 1;
        let bytes = match &self.inner {
            Some(inner) => inner.records.bytes(range),
            None => self.outer.bytes(range),
        };
        Ok(Some(Packet { bytes, offset }))
    }

    /// Calls `each` for all packets, and returns the skipped damage.
    ///
    /// # Errors
    ///
    /// Fails if reading fails, or if the input is not a trace.
    pub fn read_all(&mut self, mut each: impl FnMut(Packet<'_>)) -> Result<Damage, ReadError> {
        self.try_read_all(|packet| {
            each(packet);
            true
        })
    }

    /// Calls `each` for all packets until it returns `false`, and returns the skipped damage.
    ///
    /// # Errors
    ///
    /// Fails if reading fails, or if the input is not a trace.
    pub fn try_read_all(
        &mut self,
        mut each: impl FnMut(Packet<'_>) -> bool,
    ) -> Result<Damage, ReadError> {
        let mut damage = Damage::default();
        loop {
            match self.next_packet() {
                Ok(Some(packet)) if each(packet) => {}
                Ok(_) => break,
                Err(error) => damage.note(error)?,
            }
        }
        damage.note_end(self.truncated);
        Ok(damage)
    }

    /// Returns the incomplete record at the end of the file, once it was reached.
    pub fn truncated(&self) -> Option<Truncated> {
        self.truncated
    }

    /// Returns the number of bytes of the trace that were read so far, after decompression of the
    /// file.
    pub fn bytes_read(&self) -> u64 {
        self.outer.offset
    }

    /// Returns the compression of the file and the number of compressed bytes that were read, if
    /// the file is compressed.
    pub fn compression(&self) -> Option<(Compression, u64)> {
        let input = self.outer.window.input();
        Some((input.compression()?, input.bytes_read()))
    }

    /// Reads up to the next packet. Returns the offset of its record, and the range of its bytes:
    /// in the records of the current compressed packet if there is one, otherwise in those of the
    /// file.
    fn advance(&mut self) -> Result<Option<(u64, Range<usize>)>, ReadError> {
        loop {
            if let Some(inner) = &mut self.inner {
                let offset = inner.offset;
                match inner.records.read() {
                    Ok(Record::Packet(_, range))
                        if packed(inner.records.bytes(range.clone())).is_none() =>
                    {
                        let budget = self.outer.window.input().budget();
                        if let Err(limit) = budget.take_packet(range.len()) {
                            self.inner = None;
                            self.packets += 1;
                            return Err(decompressed_too_large(offset, limit, false));
                        }
                        return Ok(Some((offset, range)));
                    }
                    Ok(Record::Other) => continue,
                    Ok(Record::End) => {
                        self.inner = None;
                        continue;
                    }
                    Ok(Record::TooLarge(_, bytes)) => {
                        self.packets += 1;
                        return Err(self.too_large(offset, bytes));
                    }
                    // Nested compression does not occur; rejecting it bounds the work.
                    Ok(Record::Packet(..) | Record::Truncated(_) | Record::Damaged(_)) => {
                        self.inner = None;
                        return Err(ReadError::DamagedCompression { offset });
                    }
                    Err(error) => {
                        self.inner = None;
                        if let Some(limit) = DecompressionLimit::of(&error) {
                            self.packets += 1;
                            return Err(decompressed_too_large(offset, limit, false));
                        }
                        return Err(match needed_window(&error) {
                            Some(bytes) => self.window_too_large(offset, bytes, false),
                            None => ReadError::DamagedCompression { offset },
                        });
                    }
                }
            }
            if self.finished {
                return Ok(None);
            }
            let Some((offset, range)) = self.advance_outer()? else {
                return Ok(None);
            };
            let packet = self.outer.bytes(range.clone());
            let Some(packed) = packed(packet) else {
                return Ok(Some((offset, range)));
            };
            let stream = packed.bytes.to_vec();
            let budget = self.outer.window.input().budget().clone();
            let window = self.limits.window_bytes();
            let unpacked = Inner::new(packed.kind, stream, window, budget);
            let records = Records::new(unpacked, UNPACK_BYTES, self.limits.packet_bytes());
            self.inner = Some(InnerRecords { records, offset });
        }
    }

    fn advance_outer(&mut self) -> Result<Option<(u64, Range<usize>)>, ReadError> {
        if self.outer.offset == 0
            && let Err(source) = self.read_head()
        {
            self.finished = true;
            return self.failed(source).map(|()| None);
        }
        loop {
            match self.outer.read() {
                Ok(Record::Packet(offset, range)) => {
                    let input = self.outer.window.input();
                    if input.is_decompressed()
                        && let Err(limit) = input.budget().take_packet(range.len())
                    {
                        self.finished = true;
                        return Err(decompressed_too_large(offset, limit, true));
                    }
                    return Ok(Some((offset, range)));
                }
                Ok(Record::Other) => {}
                Ok(Record::End) => {
                    self.finished = true;
                    if self.packets == 0 && self.outer.offset > 0 {
                        return Err(ReadError::NotATrace(self.head));
                    }
                    return Ok(None);
                }
                Ok(Record::Truncated(offset)) => {
                    self.finished = true;
                    if self.packets == 0 && self.head[0] != PACKET_TAG {
                        return Err(ReadError::NotATrace(self.head));
                    }
                    self.truncated = Some(Truncated { offset });
                    return Ok(None);
                }
                Ok(Record::Damaged(offset)) => {
                    self.finished = true;
                    if self.packets == 0 {
                        return Err(ReadError::NotATrace(self.head));
                    }
                    return Err(ReadError::Damaged { offset });
                }
                Ok(Record::TooLarge(offset, bytes)) => {
                    // The packet shows that the file is a trace.
                    self.packets += 1;
                    return Err(self.too_large(offset, bytes));
                }
                Err(source) => {
                    self.finished = true;
                    return self.failed(source).map(|()| None);
                }
            }
        }
    }

    /// Handles an error of reading or decompressing the file. A truncated compressed file is a
    /// truncated trace.
    fn failed(&mut self, source: io::Error) -> Result<(), ReadError> {
        let (offset, is_packed) = (self.outer.start, self.compression().is_some());
        if let Some(bytes) = needed_window(&source) {
            return Err(self.window_too_large(offset, bytes, true));
        }
        if let Some(limit) = DecompressionLimit::of(&source) {
            return Err(decompressed_too_large(offset, limit, true));
        }
        if !is_packed || source.raw_os_error().is_some() {
            let offset = self.outer.offset;
            return Err(ReadError::Io { offset, source });
        }
        if source.kind() == io::ErrorKind::UnexpectedEof {
            self.truncated = Some(Truncated { offset });
            return Ok(());
        }
        Err(ReadError::Damaged { offset })
    }

    fn too_large(&self, offset: u64, bytes: u64) -> ReadError {
        let limit = self.limits.packet_bytes();
        ReadError::PacketTooLarge {
            offset,
            bytes,
            limit,
        }
    }

    fn window_too_large(&self, offset: u64, bytes: u64, is_file: bool) -> ReadError {
        let limit = self.limits.window_bytes();
        ReadError::WindowTooLarge {
            offset,
            bytes,
            limit,
            is_file,
        }
    }

    /// Stores the first bytes, to report the format of a file that is not a trace.
    fn read_head(&mut self) -> io::Result<()> {
        let window = &mut self.outer.window;
        while window.bytes().len() < self.head.len() && window.fill()? {}
        let known = self.head.iter_mut().zip(window.bytes());
        known.for_each(|(to, from)| *to = *from);
        Ok(())
    }
}

fn decompressed_too_large(offset: u64, limit: DecompressionLimit, is_file: bool) -> ReadError {
    ReadError::DecompressedTooLarge {
        offset,
        limit,
        is_file,
    }
}

/// The compressed packets inside of a packet.
struct Packed<'a> {
    kind: Kind,
    bytes: &'a [u8],
}

#[inline]
fn packed(packet: &[u8]) -> Option<Packed<'_>> {
    if may_be_packed(packet) {
        find_packed(packet)
    } else {
        None
    }
}

/// Returns false if the packet contains neither tag of compressed packets. This takes less time
/// than parsing its fields.
#[inline]
fn may_be_packed(packet: &[u8]) -> bool {
    const MANY: usize = 256;
    const WORD: usize = size_of::<u64>();
    const ONES: u64 = 0x0101_0101_0101_0101;
    /// Returns the first two bytes of a tag of two or more bytes, without the highest bits.
    const fn first_bytes(number: u32) -> [u64; 2] {
        let tag = (number << 3 | 2) as u64;
        [tag & 0x7f, tag >> 7 & 0x7f]
    }
    let has_tag = |bytes: &[u8]| {
        let word = bytes
            .first_chunk()
            .map_or(0, |word| u64::from_le_bytes(*word));
        let next = word >> 8 & (ONES * 0x7f);
        // A byte is 0 if it is the first byte of a tag and the next byte is the second one.
        let differs = |number| {
            let [first, second] = first_bytes(number);
            word ^ (ONES * (first | 0x80)) | next ^ (ONES * second)
        };
        let has_zero = |word: u64| word.wrapping_sub(ONES) & !word & (ONES << 7);
        let deflate = has_zero(differs(trace_packet::COMPRESSED_PACKETS));
        let zstd = has_zero(differs(trace_packet::ZSTD_COMPRESSED_PACKETS));
        deflate | zstd != 0
    };
    // Long packets have few fields, and short ones are scanned quickly.
    match packet.last_chunk::<WORD>() {
        // A word contains one pair of bytes fewer than bytes.
        Some(last) if packet.len() < MANY => {
            has_tag(last) || packet.windows(WORD).step_by(WORD - 1).any(has_tag)
        }
        _ => true,
    }
}

fn find_packed(packet: &[u8]) -> Option<Packed<'_>> {
    let packed = |field: &Field<'_>| {
        matches!(
            field.number,
            trace_packet::COMPRESSED_PACKETS | trace_packet::ZSTD_COMPRESSED_PACKETS
        )
    };
    let field = Fields::new(packet).map_while(Result::ok).find(packed)?;
    let kind = match field.number {
        trace_packet::COMPRESSED_PACKETS => Kind::Deflate,
        _ => Kind::Zstd,
    };
    let bytes = field.as_bytes()?;
    Some(Packed { kind, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_packets_are_found_at_any_offset_and_with_any_tag_encoding() {
        let numbers = [
            trace_packet::COMPRESSED_PACKETS,
            trace_packet::ZSTD_COMPRESSED_PACKETS,
        ];
        for (number, before, after) in numbers
            .into_iter()
            .flat_map(|number| (0..20).map(move |before| (number, before)))
            .flat_map(|(number, before)| (0..10).map(move |after| (number, before, after)))
        {
            let tag = number << 3 | 2;
            let (low, high) = (tag as u8 | 0x80, (tag >> 7) as u8);
            for tag in [&[low, high][..], &[low, high | 0x80, 0]] {
                let filler = |bytes: usize| [vec![0x0a, bytes as u8], vec![0; bytes]].concat();
                let packet = [&filler(before), tag, &[1, 7], &filler(after)].concat();
                let found = packed(&packet).map(|found| found.bytes);
                assert_eq!(found, Some(&[7][..]), "{packet:x?}");
            }
        }
        assert!(!may_be_packed(&[
            0x92, 0x04, 3, 0x0a, 0, 0x08, 0x12, 0x03, 1
        ]));
    }
}
