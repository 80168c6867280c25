//! Bytes that are read in parts.

use std::io;
use std::ops::Range;

use super::{Reader, Stored, Writer};

/// Bytes in a saved trace. Each part is read when it is needed, and not kept.
#[derive(Debug)]
pub struct Data(Stored);

impl Data {
    /// Writes bytes.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub fn save(bytes: &[u8], writer: &mut Writer<'_>) -> io::Result<()> {
        writer.bytes(bytes)
    }

    /// Returns written bytes, without reading them.
    ///
    /// # Errors
    ///
    /// Fails if the file is damaged.
    pub fn load(reader: &mut Reader) -> io::Result<Self> {
        let length = reader.small()?;
        reader.stored(length).map(Self)
    }

    /// Reads a part.
    ///
    /// # Panics
    ///
    /// Ends the code that needs the part if it is damaged, or if there is none:
    /// [`Trace::intact`](crate::Trace::intact) catches this.
    pub fn read(&self, part: Range<usize>) -> Vec<u8> {
        let length = part.end.saturating_sub(part.start);
        self.0.read_part(part.start, length)
    }

    /// Returns the number of bytes.
    pub fn length(&self) -> usize {
        self.0.length()
    }
}
