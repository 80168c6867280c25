//! The errors of reading a file.

use std::io;

/// Why an ELF file, or a part of it, could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    /// It does not begin with the magic bytes.
    #[error("not an ELF file")]
    NotElf,
    /// A class or byte order that is not read: only little-endian files of 32 or 64 bits are.
    #[error("an ELF file of a class or byte order that is not supported")]
    Unsupported,
    /// A header or table has an impossible value.
    #[error("malformed {0}")]
    Malformed(&'static str),
    /// More than is read of any file.
    #[error("{what}: {size} bytes, and at most {limit} are read")]
    TooLarge {
        /// The part that is too large.
        what: &'static str,
        /// Its size, in bytes.
        size: u64,
        /// The most that is read of it, in bytes.
        limit: u64,
    },
    /// A compressed section in a format that is not known, or damaged.
    #[error("a compressed section that cannot be decompressed")]
    Compression,
    /// The system's error.
    #[error(transparent)]
    Read(#[from] io::Error),
}
