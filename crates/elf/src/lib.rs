//! ELF files as profilers need them: identity, where code lies, unwind tables and symbol tables.
//!
//! Files come from the profiled processes, so nothing in them is trusted: they are read with
//! `pread` (a file that shrinks meanwhile is an error, not a signal), every count and size is
//! checked against the file and against a limit before memory is taken for it, and malformed
//! headers are errors.
//!
//! 32-bit and 64-bit files in little-endian order are read, and the symbols that some distributions
//! put, compressed by xz, into `.gnu_debugdata`. Not offered: big-endian files.
//!
//! ```
//! use ferretto_elf::{Elf, open_regular};
//!
//! let file = open_regular("/proc/self/exe").unwrap();
//! let elf = Elf::open(file, 0).unwrap();
//! assert!(elf.segments().iter().any(|segment| segment.is_executable()));
//! ```

#![forbid(unsafe_code)]

mod bytes;
mod dynamic;
mod elf;
mod error;
mod header;
mod mini;
mod notes;
mod open;
mod part;
mod read_at;
mod section;
mod symbols;

pub use bytes::Class;
pub use elf::Elf;
pub use error::ElfError;
pub use header::{SectionHeader, Segment};
pub use open::{open_regular, open_regular_within};
pub use part::Part;
pub use read_at::ReadAt;
pub use section::DebugLink;
pub use symbols::Symbols;
