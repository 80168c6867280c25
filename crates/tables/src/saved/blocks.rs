//! Row numbers that are read in blocks.

use std::io;

use super::{Reader, Saved as _, Writer};
use crate::column::Packed;

/// Row numbers in a saved trace. Each block of them is read on first use.
#[derive(Debug)]
pub struct Blocks(Packed);

impl Blocks {
    /// Writes row numbers.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub fn save(
        rows: impl ExactSizeIterator<Item = u32>,
        writer: &mut Writer<'_>,
    ) -> io::Result<()> {
        Packed::save_all(writer, rows.map(i64::from))
    }

    /// Returns written row numbers, without reading them.
    ///
    /// # Errors
    ///
    /// Fails if the file is damaged.
    pub fn load(reader: &mut Reader) -> io::Result<Self> {
        Packed::load(reader).map(Self)
    }

    /// Returns the number at an index, or 0 if there is none.
    #[inline]
    pub fn get(&self, index: usize) -> u32 {
        self.0.get(index) as u32
    }

    /// Returns how many numbers there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the memory of the blocks that were read, in bytes.
    pub fn memory(&self) -> usize {
        self.0.memory_read()
    }
}
