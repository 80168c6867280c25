//! Compression of a trace: each batch of packets becomes one packet that contains them.

mod codec;

use ferretto_format::Preamble;
use ferretto_proto::TraceConfig;
use ferretto_proto::trace_config::CompressionType;
use ferretto_wire::{Fields, MAX_VARINT_LENGTH, Value, encode_varint};

use crate::limits::FILE_BATCH;
use codec::Codec;

/// The memory kept for the next batch; only a very large packet needs more.
const KEPT_BYTES: usize = 2 * FILE_BATCH;

/// Collects and compresses the packets of a session in batches. Batches are independent, so that a
/// reader can start with any of them.
#[derive(Debug)]
pub(crate) struct Compressor {
    codec: Codec,
    /// The packets of this batch, as a `Trace`.
    batch: Vec<u8>,
}

/// A compressed batch.
#[derive(Debug)]
pub(crate) struct CompressedBatch {
    preamble: [u8; 2 + MAX_VARINT_LENGTH],
    preamble_length: usize,
    payload: Vec<u8>,
}

/// The error of a service built without the feature `deflate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoDeflate;

ferretto_wire::error_text! {
    NoDeflate {
        Self => "This service was built without compression by deflate (feature \"deflate\" of ferretto-service)",
    }
}

impl Compressor {
    /// Returns the compressor that a config asks for: zstd, then deflate, then the field of older
    /// configs. `None` if it asks for none, or only for zstd in a build without it: as in upstream,
    /// the trace is then not compressed.
    ///
    /// # Errors
    ///
    /// Fails if the config asks for deflate in a build without it.
    pub(crate) fn for_config(config: &TraceConfig) -> Result<Option<Self>, NoDeflate> {
        let choice = &*config.compression;
        let zstd = choice.zstd.as_option().map(|zstd| zstd.level.unwrap_or(0));
        let older = config.compression_type == Some(CompressionType::COMPRESSION_TYPE_DEFLATE);
        let codec = match zstd.and_then(Codec::zstd) {
            None if choice.deflate.is_set() || older => Some(Codec::deflate().ok_or(NoDeflate)?),
            codec => codec,
        };
        let batch = Vec::new();
        Ok(codec.map(|codec| Self { codec, batch }))
    }

    /// Adds a packet given in pieces.
    pub(crate) fn add<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]> + Clone) {
        append_packet(&mut self.batch, pieces);
    }

    /// Ends the batch, and returns the packet that contains its packets; `None` if it is empty.
    pub(crate) fn finish(&mut self) -> Option<CompressedBatch> {
        if self.batch.is_empty() {
            return None;
        }
        let payload = self.codec.compress(&self.batch)?;
        self.batch.clear();
        self.batch.shrink_to(KEPT_BYTES);
        let mut preamble = [0; 2 + MAX_VARINT_LENGTH];
        let (tag, length) = preamble.split_at_mut(2);
        encode_varint(u64::from(self.codec.field() << 3 | 2), tag);
        let preamble_length = 2 + encode_varint(payload.len() as u64, length);
        Some(CompressedBatch {
            preamble,
            preamble_length,
            payload,
        })
    }

    /// Takes the packets that could not be compressed. No codec is known to fail.
    pub(crate) fn take_uncompressed(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.batch)
    }
}

impl CompressedBatch {
    /// Returns the packet in pieces of at most `max_piece` bytes.
    pub(crate) fn pieces(&self, max_piece: usize) -> impl Iterator<Item = &[u8]> + Clone {
        let preamble = self.preamble.get(..self.preamble_length);
        let payload = self.payload.chunks(max_piece.max(1));
        preamble.into_iter().chain(payload)
    }
}

/// Appends a packet given in pieces in the format of a file.
pub(crate) fn append_packet<'a>(
    trace: &mut Vec<u8>,
    pieces: impl Iterator<Item = &'a [u8]> + Clone,
) {
    let length: usize = pieces.clone().map(<[u8]>::len).sum();
    let preamble = Preamble::new(length);
    let preamble = preamble.as_bytes();
    trace.reserve(preamble.len() + length);
    trace.extend_from_slice(preamble);
    for piece in pieces {
        trace.extend_from_slice(piece);
    }
}

/// Returns the packets of a trace.
pub(crate) fn packets(trace: &[u8]) -> impl Iterator<Item = &[u8]> {
    Fields::new(trace).map_while(|field| match field.ok()?.value {
        Value::Bytes(packet) => Some(packet),
        _ => None,
    })
}

#[cfg(all(test, feature = "deflate"))]
mod tests;
