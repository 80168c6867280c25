//! Why packets could not be read.

use std::{fmt, io};

/// A last record that the file does not hold completely, as a killed recorder leaves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncated {
    /// The place where the incomplete record begins, in bytes.
    pub offset: u64,
}

/// Why no further packet could be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Reading the file failed.
    #[error("reading failed at byte {offset}")]
    Io {
        /// The number of bytes that were read.
        offset: u64,
        /// The answer of the system.
        source: io::Error,
    },
    /// The file begins with something that no trace begins with.
    #[error("this is not a Perfetto trace{}", Hint(.0))]
    NotATrace([u8; 4]),
    /// The bytes at this offset are no record of a trace. Everything before it has been delivered.
    #[error("the trace is damaged at byte {offset}; what follows cannot be read")]
    Damaged {
        /// The place where the damage begins.
        offset: u64,
    },
    /// A compressed packet does not unpack. Reading may go on behind it.
    #[error("the compressed packet at byte {offset} is damaged")]
    DamagedCompression {
        /// The place where the compressed packet begins.
        offset: u64,
    },
    /// A packet is larger than [`Limits`](crate::Limits) allow. Reading may go on behind it.
    #[error(
        "the packet at byte {offset} is left out: it has {bytes} bytes, and {limit} of one fit into memory"
    )]
    PacketTooLarge {
        /// The place where it begins, or the compressed packet it is in.
        offset: u64,
        /// Its size in bytes.
        bytes: u64,
        /// The size it may have.
        limit: u64,
    },
    /// Compressed bytes that cannot be unpacked within [`Limits`](crate::Limits). Reading may go on
    /// behind it, if it is a packet.
    #[error(
        "what is compressed at byte {offset} is left out: unpacking it takes {bytes} bytes, and {limit} are allowed"
    )]
    WindowTooLarge {
        /// The place where it begins.
        offset: u64,
        /// The memory it takes.
        bytes: u64,
        /// The memory it may take.
        limit: u64,
        /// True if it is the whole file.
        is_file: bool,
    },
}

impl ReadError {
    /// Returns true if the next call of
    /// [`TraceReader::next_packet`](super::TraceReader::next_packet) continues behind the damage.
    pub fn is_recoverable(&self) -> bool {
        match self {
            Self::DamagedCompression { .. } | Self::PacketTooLarge { .. } => true,
            Self::WindowTooLarge { is_file, .. } => !is_file,
            Self::Io { .. } | Self::NotATrace(_) | Self::Damaged { .. } => false,
        }
    }

    /// Returns true if a reader with higher [`Limits`](crate::Limits) would go on.
    pub fn is_limit(&self) -> bool {
        matches!(
            self,
            Self::PacketTooLarge { .. } | Self::WindowTooLarge { .. }
        )
    }
}

/// Names the likely format of a file that is no trace.
struct Hint<'a>(&'a [u8; 4]);

impl fmt::Display for Hint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [0x1f, 0x8b, ..] => f.write_str("; it is gzip-compressed, unpack it first"),
            [0x28, 0xb5, 0x2f, 0xfd] => f.write_str("; it is zstd-compressed, unpack it first"),
            [b'P', b'K', ..] => f.write_str("; it is a zip archive, unpack it first"),
            [b'{' | b'[', ..] => {
                f.write_str("; it looks like JSON, of which ferretto import makes a trace")
            }
            b"PERF" | b"2ELI" => {
                f.write_str("; it is perf.data, of which ferretto import makes a trace")
            }
            [0x7f, b'E', b'L', b'F'] => f.write_str("; it is a program or library"),
            text if text.iter().all(|byte| matches!(byte, b'\t' | b'\n' | b' '..=b'~')) => {
                f.write_str(
                    "; it looks like text: ferretto import makes traces of collapsed stacks and of the output of perf \
                     script",
                )
            }
            _ => Ok(()),
        }
    }
}
