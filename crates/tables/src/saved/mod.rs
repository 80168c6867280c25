//! Imported traces in files, so that they can be used again without an import.
//!
//! Such a file is a cache of the program that wrote it: it has no stable format, and belongs to
//! the same user. It consists of data, which is read when it is needed, numbers that describe the
//! data, which are read at once, and an end of [`END_BYTES`]. A checksum of the whole file is
//! compared before anything of it is used.

mod array;
mod reader;
mod trace;
mod writer;

pub(crate) use self::array::decode;
pub use self::array::{Array, Element};
pub use self::reader::Reader;
pub(crate) use self::reader::Stored;
pub use self::writer::Writer;

use std::io;

/// The last bytes of a file: the length of the numbers, the checksum, and the mark.
const END_BYTES: usize = 24;

/// The mark of such a file, with the version of the format.
const MARK: [u8; 8] = *b"ferrtab1";

/// The number of bytes that are read, written and summed up together.
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

/// A checksum of chunks of bytes. It finds accidental changes only.
#[derive(Debug, Clone, Copy)]
struct Checksum([u64; 4]);

impl Checksum {
    fn new() -> Self {
        Self([1, 2, 3, 4])
    }

    /// Adds a chunk. All chunks except the last must be of [`CHUNK`] bytes.
    fn add(&mut self, chunk: &[u8]) {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(ODD).rotate_left(29);
        let (stripes, rest) = chunk.as_chunks::<32>();
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
