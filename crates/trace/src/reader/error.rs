//! Errors of reading packets.

use std::{fmt, io};

use ferretto_format::decompression::DecompressionLimit;

/// An incomplete record at the end of the file, for example because the recorder was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncated {
    /// The offset of the incomplete record, in bytes.
    pub offset: u64,
}

/// An error of reading the next packet.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Reading the file failed.
    #[error("reading failed at byte {offset}")]
    Io {
        /// The number of bytes read before.
        offset: u64,
        /// The error of the system.
        source: io::Error,
    },
    /// The file does not begin like a trace.
    #[error("this is not a Perfetto trace{}", Hint(.0))]
    NotATrace([u8; 4]),
    /// The bytes at this offset are not a record of a trace. Everything before them was delivered.
    #[error("the trace is damaged at byte {offset}; the rest cannot be read")]
    Damaged {
        /// The offset of the damage.
        offset: u64,
    },
    /// A compressed packet cannot be decompressed. Reading can continue after it.
    #[error("the compressed packet at byte {offset} is damaged")]
    DamagedCompression {
        /// The offset of the compressed packet.
        offset: u64,
    },
    /// A packet is larger than [`Limits`](crate::Limits) allow. Reading can continue after it.
    #[error(
        "the packet at byte {offset} is skipped: it has {bytes} bytes, and the memory limit allows {limit}"
    )]
    PacketTooLarge {
        /// The offset of the packet, or of the compressed packet that contains it.
        offset: u64,
        /// The size of the packet, in bytes.
        bytes: u64,
        /// The allowed size, in bytes.
        limit: u64,
    },
    /// Decompression needs more memory than [`Limits`](crate::Limits) allow. If this concerns a
    /// packet, reading can continue after it.
    #[error(
        "the compressed data at byte {offset} is skipped: decompressing it takes {bytes} bytes, and the memory limit allows {limit}"
    )]
    WindowTooLarge {
        /// The offset of the compressed data.
        offset: u64,
        /// The needed memory, in bytes.
        bytes: u64,
        /// The allowed memory, in bytes.
        limit: u64,
        /// True if the whole file is compressed.
        is_file: bool,
    },
    /// Decompression exceeds the budget of the file. If this concerns a packet, reading can
    /// continue after it.
    #[error("the rest of the compressed data at byte {offset} is skipped: {limit}")]
    DecompressedTooLarge {
        /// The offset of the compressed packet; in a compressed file, that of the next packet.
        offset: u64,
        /// The limit.
        limit: DecompressionLimit,
        /// True if the whole file is compressed.
        is_file: bool,
    },
}

impl ReadError {
    /// Returns true if the next call of
    /// [`TraceReader::next_packet`](super::TraceReader::next_packet) continues after the damage.
    pub fn is_recoverable(&self) -> bool {
        match self {
            Self::DamagedCompression { .. } | Self::PacketTooLarge { .. } => true,
            Self::WindowTooLarge { is_file, .. } | Self::DecompressedTooLarge { is_file, .. } => {
                !is_file
            }
            Self::Io { .. } | Self::NotATrace(_) | Self::Damaged { .. } => false,
        }
    }

    /// Returns true if a reader with higher [`Limits`](crate::Limits) would continue.
    pub fn is_limit(&self) -> bool {
        matches!(
            self,
            Self::PacketTooLarge { .. }
                | Self::WindowTooLarge { .. }
                | Self::DecompressedTooLarge { .. }
        )
    }
}

/// Displays the likely format of a file that is not a trace.
struct Hint<'a>(&'a [u8; 4]);

impl fmt::Display for Hint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [0x1f, 0x8b, ..] => f.write_str("; it is gzip-compressed, decompress it first"),
            [0x28, 0xb5, 0x2f, 0xfd] => f.write_str("; it is zstd-compressed, decompress it first"),
            [b'P', b'K', ..] => f.write_str("; it is a zip archive, unpack it first"),
            [b'{' | b'[', ..] => {
                f.write_str("; it looks like JSON, which ferretto import converts to a trace")
            }
            b"PERF" | b"2ELI" => {
                f.write_str("; it is perf.data, which ferretto import converts to a trace")
            }
            [0x7f, b'E', b'L', b'F'] => f.write_str("; it is a program or library"),
            text if text.iter().all(|byte| matches!(byte, b'\t' | b'\n' | b' '..=b'~')) => {
                f.write_str(
                    "; it looks like text: ferretto import converts collapsed stacks and the output of perf script",
                )
            }
            _ => Ok(()),
        }
    }
}
