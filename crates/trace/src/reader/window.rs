//! A buffer of the next bytes of a stream.

use std::io::{self, Read};
use std::ops::Range;

/// The next bytes of a stream.
#[derive(Debug)]
pub(super) struct Window<R> {
    input: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl<R: Read> Window<R> {
    /// Creates a window that reads `capacity` bytes at a time; more may be buffered.
    pub(super) fn new(input: R, capacity: usize) -> Self {
        Self {
            input,
            buffer: vec![0; capacity],
            start: 0,
            end: 0,
        }
    }

    /// Returns the stream, whose position is after the buffered bytes.
    pub(super) fn input(&self) -> &R {
        &self.input
    }

    /// Returns the buffered bytes.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        self.at(self.start..self.end)
    }

    /// Returns the bytes of a range that [`consume`](Self::consume) returned.
    #[inline]
    pub(super) fn at(&self, range: Range<usize>) -> &[u8] {
        self.buffer.get(range).unwrap_or_default()
    }

    /// Consumes buffered bytes and returns their range, which is valid until the next
    /// [`fill`](Self::fill).
    #[inline]
    pub(super) fn consume(&mut self, bytes: usize) -> Range<usize> {
        let start = self.start;
        self.start = (start + bytes).min(self.end);
        start..self.start
    }

    /// Reads more bytes. Returns false at the end of the stream.
    pub(super) fn fill(&mut self) -> io::Result<bool> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.end == self.buffer.len() {
            self.buffer.reserve_exact(self.end);
            self.buffer.resize(2 * self.end, 0);
        }
        loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(count) => {
                    self.end += count;
                    return Ok(count > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
