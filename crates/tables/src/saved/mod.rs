//! Imported traces in files, so that they can be used again without an import.
//!
//! Such a file is a cache of the program that wrote it: it has no stable format, and belongs to
//! the same user. It consists of data in pages, which are read when they are needed, numbers that
//! describe the data, checksums of the pages, and an end of [`END_BYTES`]. Numbers and checksums
//! are read at once, and compared with their own checksum; a page is compared with its checksum
//! when it is first read. If it is damaged, the code that needs it is ended, so that no result is
//! computed from it.

mod array;
mod blocks;
mod data;
mod pages;
mod reader;
mod trace;
mod writer;

pub(crate) use self::array::decode;
pub use self::array::{Array, Element};
pub use self::blocks::Blocks;
pub use self::data::Data;
pub(crate) use self::pages::{Pages, Stored};
pub use self::reader::Reader;
pub use self::writer::Writer;

use std::io;

/// The last bytes of a file: the length of the data, the checksum of what follows it, and the mark.
const END_BYTES: usize = 24;

/// The mark of such a file, with the version of the format.
const MARK: [u8; 8] = *b"ferrtab3";

/// The number of bytes that have a checksum.
const PAGE: usize = 16 << 10;

/// The number of bytes that are written together, in whole pages.
const CHUNK: usize = 1 << 20;

/// A part of a trace that can be written to a file, and read again.
pub(crate) trait Saved: Sized {
    /// Writes the part.
    fn save(&self, writer: &mut Writer<'_>) -> io::Result<()>;

    /// Reads the part, or a description of its data.
    fn load(reader: &mut Reader) -> io::Result<Self>;
}

/// Fails if a condition of a readable file is not met.
pub(crate) fn check(is_met: bool) -> io::Result<()> {
    if is_met { Ok(()) } else { Err(damaged()) }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the saved trace is damaged")
}

/// Returns the checksum of numbers and of the checksums of pages, of data of this length.
fn head_sum(head: &[u8], length: u64) -> u64 {
    let mut sum = Checksum::new();
    sum.add(head);
    sum.finish(length ^ (head.len() as u64).rotate_left(32))
}

/// A checksum of bytes. It finds accidental changes only.
#[derive(Debug, Clone, Copy)]
struct Checksum([u64; 4]);

impl Checksum {
    fn new() -> Self {
        Self([1, 2, 3, 4])
    }

    /// Adds bytes.
    fn add(&mut self, bytes: &[u8]) {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(ODD).rotate_left(29);
        let (stripes, rest) = bytes.as_chunks::<32>();
        let [mut a, mut b, mut c, mut d] = self.0;
        for stripe in stripes {
            let (words, _) = stripe.as_chunks::<8>();
            a = mix(a, u64::from_le_bytes(words[0]));
            b = mix(b, u64::from_le_bytes(words[1]));
            c = mix(c, u64::from_le_bytes(words[2]));
            d = mix(d, u64::from_le_bytes(words[3]));
        }
        for byte in rest {
            a = mix(a, u64::from(*byte) | 0x100);
        }
        self.0 = [a, b, c, d];
    }

    fn finish(self, length: u64) -> u64 {
        let [a, b, c, d] = self.0;
        let mut sum = Self([a, b, c, d]);
        for word in [a, b, c, d, length] {
            sum.add(&word.to_le_bytes());
        }
        sum.0[0]
    }
}
