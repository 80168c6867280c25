//! Writing saved traces.

use std::io::{self, Write};

use super::pages::sum;
use super::{CHUNK, MARK, PAGE, head_sum};

/// Writes data, and numbers that describe it.
pub struct Writer<'a> {
    out: &'a mut dyn Write,
    /// Data that is not written yet.
    buffer: Vec<u8>,
    numbers: Vec<u8>,
    length: u64,
    /// The checksums of the written pages.
    sums: Vec<u64>,
}

impl std::fmt::Debug for Writer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

impl<'a> Writer<'a> {
    /// Returns a writer of a file.
    pub fn new(out: &'a mut dyn Write) -> Self {
        Self {
            out,
            buffer: Vec::with_capacity(2 * CHUNK),
            numbers: Vec::new(),
            length: 0,
            sums: Vec::new(),
        }
    }

    /// Writes a number.
    pub fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.numbers.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.numbers.push(number as u8);
    }

    /// Writes a number that may be negative.
    pub fn signed(&mut self, number: i64) {
        self.number((number << 1 ^ number >> 63) as u64);
    }

    /// Writes a number that may be missing.
    pub fn optional(&mut self, number: Option<i64>) {
        self.number(number.is_some().into());
        if let Some(number) = number {
            self.signed(number);
        }
    }

    /// Writes data of a length that the reader knows.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub fn data(&mut self, data: &[u8]) -> io::Result<()> {
        self.buffer.extend_from_slice(data);
        self.length += data.len() as u64;
        self.flush(CHUNK)
    }

    /// Writes bytes, and their number.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.number(bytes.len() as u64);
        self.data(bytes)
    }

    /// Writes the buffer as long as it has this many bytes.
    fn flush(&mut self, least: usize) -> io::Result<()> {
        let mut at = 0;
        while self.buffer.len() - at >= least && at < self.buffer.len() {
            let end = self.buffer.len().min(at + CHUNK);
            let chunk = &self.buffer[at..end];
            for page in chunk.chunks(PAGE) {
                self.sums.push(sum(self.sums.len(), page));
            }
            self.out.write_all(chunk)?;
            at = end;
        }
        self.buffer.drain(..at);
        Ok(())
    }

    /// Writes the numbers, the checksums and the end of the file.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub fn finish(mut self) -> io::Result<()> {
        self.flush(1)?;
        let mut head = self.numbers;
        head.extend(self.sums.iter().flat_map(|sum| sum.to_le_bytes()));
        self.out.write_all(&head)?;
        let mut end = self.length.to_le_bytes().to_vec();
        end.extend(head_sum(&head, self.length).to_le_bytes());
        end.extend(MARK);
        self.out.write_all(&end)
    }
}
