//! Packets of a trace, streamed from any reader.

use std::fmt;
use std::io::{self, BufRead, BufReader, Cursor, Read};

use ferretto_wire::Fields;
use flate2::bufread::ZlibDecoder;
use ruzstd::decoding::StreamingDecoder;

/// Largest packet that is read; a longer length can only be damage.
pub const MAX_PACKET_BYTES: u64 = 512 << 20;

/// `Trace.packet`.
const TRACE_PACKET: u32 = 1;
/// `TracePacket.compressed_packets`: a zlib stream of `Trace.packet` records.
const COMPRESSED_PACKETS: u32 = 50;
/// `TracePacket.zstd_compressed_packets`: the same as a Zstandard frame.
const ZSTD_COMPRESSED_PACKETS: u32 = 133;

/// One packet as it stands in the trace.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// The encoded `TracePacket`.
    pub bytes: &'a [u8],
    /// Where the record begins in the file, in bytes. For a packet out of a compressed one, where that one begins.
    pub offset: u64,
}

impl<'a> Packet<'a> {
    /// Walks the fields of the packet.
    pub fn fields(&self) -> Fields<'a> {
        Fields::new(self.bytes)
    }
}

/// A last record that the file does not hold completely, as a killed recorder leaves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncated {
    /// Where the incomplete record begins, in bytes.
    pub offset: u64,
}

/// Why no further packet could be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Reading the file failed.
    #[error("reading failed at byte {offset}")]
    Io {
        /// How far reading got.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The file begins with something that no trace begins with.
    #[error("this is not a Perfetto trace{}", Hint(.0))]
    NotATrace([u8; 4]),
    /// What stands at this offset is not a record of a trace. Everything before it has been delivered.
    #[error("the trace is damaged at byte {offset}; what follows cannot be read")]
    Damaged {
        /// Where the damage begins.
        offset: u64,
    },
    /// A compressed packet does not unpack. Reading may go on behind it.
    #[error("the compressed packet at byte {offset} is damaged")]
    DamagedCompression {
        /// Where the compressed packet begins.
        offset: u64,
    },
}

impl ReadError {
    /// Whether the next call of [`TraceReader::next_packet`] continues behind the damage.
    pub fn is_recoverable(&self) -> bool {
        matches!(self, Self::DamagedCompression { .. })
    }
}

/// Names what a file that is no trace looks like.
struct Hint<'a>(&'a [u8; 4]);

impl fmt::Display for Hint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [0x1f, 0x8b, ..] => f.write_str("; it is gzip-compressed, unpack it first"),
            [0x28, 0xb5, 0x2f, 0xfd] => f.write_str("; it is zstd-compressed, unpack it first"),
            [b'P', b'K', ..] => f.write_str("; it is a zip archive, unpack it first"),
            [b'{' | b'[', ..] => f.write_str("; it looks like a JSON trace"),
            _ => Ok(()),
        }
    }
}

/// Reads the packets of a trace one after another, in the order of the file.
///
/// Any bytes are accepted: memory stays bounded by the largest packet (and by [`MAX_PACKET_BYTES`]), compressed
/// packets are unpacked on the way, and a record cut off by the end of the file ends the trace and is reported by
/// [`truncated`](Self::truncated).
#[derive(Debug)]
pub struct TraceReader<R> {
    outer: Records<BufReader<R>>,
    inner: Option<Inner>,
    packet: Vec<u8>,
    head: [u8; 4],
    packets: u64,
    truncated: Option<Truncated>,
    finished: bool,
}

/// The records inside one compressed packet.
#[derive(Debug)]
struct Inner {
    records: Records<BufReader<Unpacked>>,
    offset: u64,
}

/// The bytes that come out of a compressed packet.
enum Unpacked {
    Deflate(ZlibDecoder<Cursor<Vec<u8>>>),
    Zstd(Box<StreamingDecoder<Cursor<Vec<u8>>, ruzstd::decoding::FrameDecoder>>),
}

impl fmt::Debug for Unpacked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deflate(_) => "Deflate",
            Self::Zstd(_) => "Zstd",
        })
    }
}

impl Unpacked {
    /// `None` if the bytes do not even begin as they should.
    fn new(compression: &Compression, stream: Vec<u8>) -> Option<Self> {
        let stream = Cursor::new(stream);
        Some(match compression.kind {
            Kind::Deflate => Self::Deflate(ZlibDecoder::new(stream)),
            Kind::Zstd => Self::Zstd(Box::new(StreamingDecoder::new(stream).ok()?)),
        })
    }
}

impl Read for Unpacked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Deflate(decoder) => decoder.read(buffer),
            Self::Zstd(decoder) => decoder.read(buffer),
        }
    }
}

impl<R: Read> TraceReader<R> {
    /// Reads from the current position of `input`; buffering is done here.
    pub fn new(input: R) -> Self {
        Self {
            outer: Records::new(BufReader::with_capacity(1 << 18, input)),
            inner: None,
            packet: Vec::new(),
            head: [0; 4],
            packets: 0,
            truncated: None,
            finished: false,
        }
    }

    /// The next packet, or `None` at the end of the trace.
    pub fn next_packet(&mut self) -> Result<Option<Packet<'_>>, ReadError> {
        match self.advance()? {
            Some(offset) => {
                self.packets += 1;
                Ok(Some(Packet {
                    bytes: &self.packet,
                    offset,
                }))
            }
            None => Ok(None),
        }
    }

    /// Set once the end was reached inside a record.
    pub fn truncated(&self) -> Option<Truncated> {
        self.truncated
    }

    /// How many bytes of the file were read so far.
    pub fn bytes_read(&self) -> u64 {
        self.outer.offset
    }

    /// Fills `self.packet` and returns the offset of its record.
    fn advance(&mut self) -> Result<Option<u64>, ReadError> {
        loop {
            if let Some(inner) = &mut self.inner {
                let offset = inner.offset;
                match inner.records.read(&mut self.packet) {
                    Ok(Record::Packet(_)) if compression(&self.packet).is_none() => {
                        return Ok(Some(offset));
                    }
                    Ok(Record::Other) => continue,
                    Ok(Record::End) => {
                        self.inner = None;
                        continue;
                    }
                    // Compression inside compression does not occur; refusing it bounds the work.
                    Ok(Record::Packet(_) | Record::Truncated(_) | Record::Damaged(_)) | Err(_) => {
                        self.inner = None;
                        return Err(ReadError::DamagedCompression { offset });
                    }
                }
            }
            if self.finished {
                return Ok(None);
            }
            let Some(offset) = self.advance_outer()? else {
                return Ok(None);
            };
            match compression(&self.packet) {
                None => return Ok(Some(offset)),
                Some(compression) => {
                    let mut stream = std::mem::take(&mut self.packet);
                    stream.truncate(compression.range.end);
                    stream.drain(..compression.range.start);
                    let Some(unpacked) = Unpacked::new(&compression, stream) else {
                        return Err(ReadError::DamagedCompression { offset });
                    };
                    let records = Records::new(BufReader::new(unpacked));
                    self.inner = Some(Inner { records, offset });
                }
            }
        }
    }

    fn advance_outer(&mut self) -> Result<Option<u64>, ReadError> {
        if self.outer.offset == 0 {
            self.read_head();
        }
        loop {
            match self.outer.read(&mut self.packet) {
                Ok(Record::Packet(offset)) => return Ok(Some(offset)),
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
                    if self.packets == 0 && self.head[0] != 0x0a {
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
                Err(source) => {
                    self.finished = true;
                    return Err(ReadError::Io {
                        offset: self.outer.offset,
                        source,
                    });
                }
            }
        }
    }

    /// Remembers the first bytes, to name what a file is that turns out to be no trace.
    fn read_head(&mut self) {
        // An error shows again, and is reported, when the first record is read.
        if let Ok(bytes) = self.outer.input.fill_buf() {
            let n = bytes.len().min(4);
            self.head[..n].copy_from_slice(&bytes[..n]);
        }
    }
}

/// What one packet holds in place of data.
struct Compression {
    kind: Kind,
    range: std::ops::Range<usize>,
}

#[derive(Clone, Copy)]
enum Kind {
    Deflate,
    Zstd,
}

fn compression(packet: &[u8]) -> Option<Compression> {
    let mut fields = Fields::new(packet);
    while let Some(Ok(field)) = fields.next() {
        let kind = match field.number {
            COMPRESSED_PACKETS => Kind::Deflate,
            ZSTD_COMPRESSED_PACKETS => Kind::Zstd,
            _ => continue,
        };
        let bytes = field.as_bytes()?;
        // The field borrows from the packet and ends where the walk stands.
        let end = fields.offset();
        return Some(Compression {
            kind,
            range: end.checked_sub(bytes.len())?..end,
        });
    }
    None
}

/// One step through a stream of `Trace` fields. Offsets are where the record begins.
enum Record {
    Packet(u64),
    /// A field of `Trace` that is no packet; skipped.
    Other,
    End,
    Truncated(u64),
    Damaged(u64),
}

#[derive(Debug)]
struct Records<B> {
    input: B,
    offset: u64,
}

enum Number {
    Value(u64),
    End,
    Truncated,
    Malformed,
}

impl<B: BufRead> Records<B> {
    fn new(input: B) -> Self {
        Self { input, offset: 0 }
    }

    fn read(&mut self, packet: &mut Vec<u8>) -> io::Result<Record> {
        let start = self.offset;
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
        let got = if is_packet {
            packet.clear();
            // Grows with what is really there, not with what the length claims.
            rest.read_to_end(packet)? as u64
        } else {
            io::copy(&mut rest, &mut io::sink())?
        };
        self.offset += got;
        Ok(match got == length {
            false => Record::Truncated(start),
            true if is_packet => Record::Packet(start),
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
