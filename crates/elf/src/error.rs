//! Errors of reading a file.

use std::io;

/// The reason why an ELF file or a part of it cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    /// The file does not start with the magic bytes.
    #[error("not an ELF file")]
    NotElf,
    /// The class or byte order is not supported. Little-endian files of 32 and 64 bits are.
    #[error("unsupported class or byte order of an ELF file")]
    Unsupported,
    /// A header or table has an impossible value.
    #[error("malformed {0}")]
    Malformed(&'static str),
    /// A part is larger than its limit.
    #[error("{what} too large: {size} bytes, limit {limit}")]
    TooLarge {
        /// The name of the part.
        what: &'static str,
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A compressed section is damaged or has an unknown format.
    #[error("cannot decompress a section")]
    Compression,
    /// A read failed.
    #[error(transparent)]
    Read(#[from] io::Error),
}
