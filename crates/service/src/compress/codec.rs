//! The codecs for compressed traces.

#[cfg(any(feature = "deflate", feature = "zstd"))]
use ferretto_proto::fields::trace_packet as packet;
#[cfg(feature = "deflate")]
use flate2::{Compress, Compression, FlushCompress, Status};

/// The default level of zlib.
#[cfg(feature = "deflate")]
const DEFLATE_LEVEL: u32 = 6;

/// A codec with its settings, and its memory if that is worth keeping.
#[derive(Debug)]
pub(super) enum Codec {
    /// A zlib stream (RFC 1950).
    #[cfg(feature = "deflate")]
    Deflate(Box<Compress>),
    /// A Zstandard frame (RFC 8878).
    #[cfg(feature = "zstd")]
    Zstd { level: i32 },
}

impl Codec {
    #[cfg(feature = "deflate")]
    pub(super) fn deflate() -> Option<Self> {
        let level = Compression::new(DEFLATE_LEVEL);
        Some(Self::Deflate(Box::new(Compress::new(level, true))))
    }

    /// Returns `None`, as this service was built without deflate.
    #[cfg(not(feature = "deflate"))]
    pub(super) fn deflate() -> Option<Self> {
        None
    }

    /// Creates Zstandard with a level: 0 is its default, negative levels are faster, too high ones
    /// are lowered.
    #[cfg(feature = "zstd")]
    pub(super) fn zstd(level: i32) -> Option<Self> {
        Some(Self::Zstd { level })
    }

    /// Returns `None`, as this service was built without Zstandard.
    #[cfg(not(feature = "zstd"))]
    pub(super) fn zstd(_level: i32) -> Option<Self> {
        None
    }

    /// Returns the field of TracePacket for compressed packets.
    pub(super) fn field(&self) -> u32 {
        match *self {
            #[cfg(feature = "deflate")]
            Self::Deflate(_) => packet::COMPRESSED_PACKETS,
            #[cfg(feature = "zstd")]
            Self::Zstd { .. } => packet::ZSTD_COMPRESSED_PACKETS,
        }
    }

    /// Compresses `input` independently of earlier input. `None` if the codec fails.
    pub(super) fn compress(&mut self, input: &[u8]) -> Option<Vec<u8>> {
        // Without codecs there are no variants to match.
        let _ = input;
        match *self {
            #[cfg(feature = "deflate")]
            Self::Deflate(ref mut stream) => deflate(stream, input),
            #[cfg(feature = "zstd")]
            Self::Zstd { level } => {
                use structured_zstd::encoding::{CompressionLevel, compress_slice_to_vec};
                let range = CompressionLevel::MIN_LEVEL..=CompressionLevel::MAX_LEVEL;
                let level = level.clamp(*range.start(), *range.end());
                Some(compress_slice_to_vec(
                    input,
                    CompressionLevel::from_level(level),
                ))
            }
        }
    }
}

#[cfg(feature = "deflate")]
fn deflate(stream: &mut Compress, mut input: &[u8]) -> Option<Vec<u8>> {
    stream.reset();
    // Traces usually shrink to about a third.
    let mut output = Vec::with_capacity(input.len() / 2 + 64);
    loop {
        let before = stream.total_in();
        let status = stream
            .compress_vec(input, &mut output, FlushCompress::Finish)
            .ok()?;
        let consumed = usize::try_from(stream.total_in() - before).ok()?;
        input = input.get(consumed..)?;
        match status {
            Status::StreamEnd => return Some(output),
            _ => output.reserve(output.capacity().max(64)),
        }
    }
}
