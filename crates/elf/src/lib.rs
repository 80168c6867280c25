//! ELF files for profilers: build ids, segments, unwind tables and symbol tables.
//!
//! Files come from the profiled processes, so their content is not trusted. The crate reads with
//! `pread`, so a file that shrinks causes an error and not a signal. It checks every count and size
//! against the file and a limit before it allocates memory. Malformed headers are errors.
//!
//! Supports little-endian files of 32 and 64 bits, and the xz-compressed symbols in
//! `.gnu_debugdata` of some distributions. Big-endian files are not supported.
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
pub use notes::build_id_in_notes;
pub use open::{open_regular, open_regular_within};
pub use part::Part;
pub use read_at::ReadAt;
pub use section::DebugLink;
pub use symbols::Symbols;
