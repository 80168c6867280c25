//! Reading saved traces.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use super::pages::{Pages, Stored};
use super::{END_BYTES, MARK, PAGE, check, damaged, head_sum};

/// Reads the numbers of a file in the order in which they were written, and finds its data.
#[derive(Debug)]
pub struct Reader {
    pages: Arc<Pages>,
    numbers: Vec<u8>,
    at: usize,
    /// The offset of the next data.
    next: u64,
}

impl Reader {
    /// Opens a file, and compares the checksum of its numbers.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, is not a saved trace of this version, or is damaged.
    pub fn open(file: File) -> io::Result<Self> {
        let size = file.metadata()?.len();
        let before_end = size.checked_sub(END_BYTES as u64).ok_or_else(damaged)?;
        let mut end = [0; END_BYTES];
        file.read_exact_at(&mut end, before_end)?;
        let (words, _) = end.as_chunks::<8>();
        let [length, expected, mark] = [words[0], words[1], words[2]];
        check(mark == MARK)?;
        // The data is followed by numbers, which are followed by the checksums of its pages.
        let length = u64::from_le_bytes(length);
        let sums = length.div_ceil(PAGE as u64).checked_mul(8);
        let numbers = sums.and_then(|sums| before_end.checked_sub(length)?.checked_sub(sums));
        let numbers = numbers.and_then(|length| usize::try_from(length).ok());
        let numbers = numbers.ok_or_else(damaged)?;
        let mut read = vec![0; usize::try_from(before_end - length).map_err(|_| damaged())?];
        file.read_exact_at(&mut read, length)?;
        check(head_sum(&read, length) == u64::from_le_bytes(expected))?;
        let pages = Pages::new(file, length, &read[numbers..])?;
        read.truncate(numbers);
        Ok(Self {
            pages,
            numbers: read,
            at: 0,
            next: 0,
        })
    }

    /// Returns the data of the file.
    pub(crate) fn pages(&self) -> Arc<Pages> {
        self.pages.clone()
    }

    /// Reads a number.
    ///
    /// # Errors
    ///
    /// Fails if there is none.
    pub fn number(&mut self) -> io::Result<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.numbers.get(self.at).ok_or_else(damaged)?;
            self.at += 1;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(damaged())
    }

    /// Reads a number of a type.
    ///
    /// # Errors
    ///
    /// Fails if there is none, or if it is too large for the type.
    pub fn small<T: TryFrom<u64>>(&mut self) -> io::Result<T> {
        T::try_from(self.number()?).map_err(|_| damaged())
    }

    /// Reads a number that may be negative.
    ///
    /// # Errors
    ///
    /// Fails if there is none.
    pub fn signed(&mut self) -> io::Result<i64> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// Reads a number that may be missing.
    ///
    /// # Errors
    ///
    /// Fails if the file does not say whether there is one.
    pub fn optional(&mut self) -> io::Result<Option<i64>> {
        match self.number()? {
            0 => Ok(None),
            _ => self.signed().map(Some),
        }
    }

    /// Reads the number of entries of a list, each of which has a number at least.
    ///
    /// # Errors
    ///
    /// Fails if there are not as many numbers.
    pub fn count(&mut self) -> io::Result<usize> {
        let count = self.small()?;
        check(count <= self.numbers.len() - self.at)?;
        Ok(count)
    }

    /// Returns the next data of this length.
    pub(crate) fn stored(&mut self, length: usize) -> io::Result<Stored> {
        let offset = self.next;
        let next = offset.checked_add(length as u64);
        let is_within = |next: &u64| *next <= self.pages.length();
        self.next = next.filter(is_within).ok_or_else(damaged)?;
        Ok(Stored::new(self.pages.clone(), offset, length))
    }

    /// Reads bytes.
    ///
    /// # Errors
    ///
    /// Fails if there are fewer, or if they are damaged.
    pub fn bytes(&mut self) -> io::Result<Vec<u8>> {
        let length = self.small()?;
        self.stored(length)?.try_read()
    }
}
