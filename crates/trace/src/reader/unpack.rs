//! Decompression of whole files, and of packets that contain others.

use std::fmt;
use std::io::{self, BufReader, Cursor, Read};

use ferretto_format::decompression::DecompressionBudget;
use flate2::bufread::{MultiGzDecoder, ZlibDecoder};
use structured_zstd::decoding::errors::FrameDecoderError;
use structured_zstd::decoding::{FrameDecoder, StreamingDecoder};

use super::READ_BYTES;
use crate::limits::Limits;

/// The number of bytes to request from a decoder at a time. The Zstandard decoder buffers as many
/// bytes in addition to its window.
pub(super) const UNPACK_BYTES: usize = 1 << 16;
/// The number of bytes needed to detect the compression of a file.
const MAGIC_BYTES: usize = 4;

/// The compression of a whole file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Compressed by `gzip`.
    Gzip,
    /// Compressed by `zstd`.
    Zstd,
}

impl Compression {
    /// Returns the name of the program that decompresses it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    fn detect(head: &[u8]) -> Option<Self> {
        match head {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd] => Some(Self::Zstd),
            // A skippable frame, which some programs write at the beginning.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// A reader of a file that may be compressed by gzip or zstd, and is decompressed on the fly.
///
/// Memory is bounded for any file, and the decompressed data by the budget of the file.
#[derive(Debug)]
pub struct Unpacking<R: Read> {
    form: Form<R>,
    window: u64,
    budget: DecompressionBudget,
    /// True if the input is in a compressed file or an archive, whose bytes are counted already.
    is_inside: bool,
}

enum Form<R: Read> {
    /// Before the first read.
    Start(Option<R>),
    Plain(Source<R>),
    Gzip(Box<MultiGzDecoder<BufReader<Source<R>>>>),
    Zstd(Box<Zstd<BufReader<Source<R>>>>),
}

type Zstd<R> = StreamingDecoder<R, FrameDecoder>;

impl<R: Read> fmt::Debug for Form<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start(_) => "Start",
            Self::Plain(_) => "Plain",
            Self::Gzip(_) => "Gzip",
            Self::Zstd(_) => "Zstd",
        })
    }
}

/// A file whose first bytes were read to detect its compression.
struct Source<R> {
    head: [u8; MAGIC_BYTES],
    length: usize,
    position: usize,
    rest: R,
    bytes: u64,
    /// The budget that counts the bytes, unless they are counted already.
    budget: Option<DecompressionBudget>,
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let head = &self.head[self.position..self.length];
        let count = match head.len().min(buffer.len()) {
            0 => self.rest.read(buffer)?,
            count => {
                buffer[..count].copy_from_slice(&head[..count]);
                self.position += count;
                count
            }
        };
        self.bytes += count as u64;
        if let Some(budget) = &self.budget {
            budget.add_read(count as u64);
        }
        Ok(count)
    }
}

impl<R: Read> Unpacking<R> {
    /// Creates a reader that starts at the current position of `input`.
    pub fn new(input: R, limits: Limits) -> Self {
        Self {
            form: Form::Start(Some(input)),
            window: limits.window_bytes(),
            budget: limits.decompression_budget(),
            is_inside: false,
        }
    }

    /// Creates a reader of a file that is in a compressed file or an archive, and shares its
    /// budget.
    pub fn inside(input: R, limits: Limits, budget: DecompressionBudget) -> Self {
        Self {
            budget,
            is_inside: true,
            ..Self::new(input, limits)
        }
    }

    /// Returns the budget of the file.
    pub fn budget(&self) -> &DecompressionBudget {
        &self.budget
    }

    /// Returns true if the bytes that are read are decompressed ones.
    pub(super) fn is_decompressed(&self) -> bool {
        self.is_inside || self.compression().is_some()
    }

    /// Returns the compression of the file, after the first read.
    pub fn compression(&self) -> Option<Compression> {
        match &self.form {
            Form::Start(_) | Form::Plain(_) => None,
            Form::Gzip(_) => Some(Compression::Gzip),
            Form::Zstd(_) => Some(Compression::Zstd),
        }
    }

    /// Returns the number of bytes of the file that were read, before decompression.
    pub fn bytes_read(&self) -> u64 {
        let used =
            |source: &BufReader<Source<R>>| source.get_ref().bytes - source.buffer().len() as u64;
        match &self.form {
            Form::Start(_) => 0,
            Form::Plain(source) => source.bytes,
            Form::Gzip(decoder) => used(decoder.get_ref()),
            Form::Zstd(decoder) => used(decoder.get_ref()),
        }
    }

    fn start(&mut self, mut rest: R) -> io::Result<()> {
        let (mut head, mut length) = ([0; MAGIC_BYTES], 0);
        while length < MAGIC_BYTES {
            match rest.read(&mut head[length..]) {
                Ok(0) => break,
                Ok(count) => length += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let source = Source {
            head,
            length,
            position: 0,
            rest,
            bytes: 0,
            budget: (!self.is_inside).then(|| self.budget.clone()),
        };
        let buffered = |source| BufReader::with_capacity(READ_BYTES, source);
        self.form = match Compression::detect(&head[..length]) {
            None => Form::Plain(source),
            Some(Compression::Gzip) => Form::Gzip(Box::new(MultiGzDecoder::new(buffered(source)))),
            Some(Compression::Zstd) => Form::Zstd(Box::new(zstd(buffered(source), self.window))),
        };
        Ok(())
    }
}

impl<R: Read> Read for Unpacking<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = match &mut self.form {
                Form::Start(input) => match input.take() {
                    Some(input) => {
                        self.start(input)?;
                        continue;
                    }
                    None => return Ok(0),
                },
                Form::Plain(source) => return source.read(buffer),
                Form::Gzip(decoder) => decoder.read(buffer)?,
                Form::Zstd(decoder) => read_zstd(decoder, buffer)?,
            };
            self.budget.take(count as u64)?;
            return Ok(count);
        }
    }
}

fn zstd<R: Read>(source: R, window: u64) -> Zstd<R> {
    let mut decoder = FrameDecoder::new();
    // Cannot fail: the limits are in the range of the decoder.
    let _ = decoder.set_max_window_size(window);
    StreamingDecoder::new_with_decoder(source, decoder)
}

fn read_zstd<R: Read>(decoder: &mut Zstd<R>, buffer: &mut [u8]) -> io::Result<usize> {
    let length = buffer.len().min(UNPACK_BYTES);
    decoder.read(&mut buffer[..length])
}

/// Returns the window size that the data needs, if decompression failed because of it.
pub(super) fn needed_window(error: &io::Error) -> Option<u64> {
    match error.get_ref()?.downcast_ref::<FrameDecoderError>()? {
        FrameDecoderError::WindowSizeTooBig { requested, .. } => Some(*requested),
        _ => None,
    }
}

/// The compression of the packets inside of a packet.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Deflate,
    Zstd,
}

/// The decompressed bytes of a packet.
pub(super) enum Inner {
    Deflate(ZlibDecoder<Cursor<Vec<u8>>>, DecompressionBudget),
    Zstd(Box<Zstd<Cursor<Vec<u8>>>>, DecompressionBudget),
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deflate(..) => "Deflate",
            Self::Zstd(..) => "Zstd",
        })
    }
}

impl Inner {
    pub(super) fn new(
        kind: Kind,
        stream: Vec<u8>,
        window: u64,
        budget: DecompressionBudget,
    ) -> Self {
        let stream = Cursor::new(stream);
        match kind {
            Kind::Deflate => Self::Deflate(ZlibDecoder::new(stream), budget),
            Kind::Zstd => Self::Zstd(Box::new(zstd(stream, window)), budget),
        }
    }
}

impl Read for Inner {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (count, budget) = match self {
            Self::Deflate(decoder, budget) => (decoder.read(buffer)?, budget),
            Self::Zstd(decoder, budget) => (read_zstd(decoder, buffer)?, budget),
        };
        budget.take(count as u64)?;
        Ok(count)
    }
}
