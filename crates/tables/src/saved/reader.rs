//! Reading saved traces.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use super::{CHUNK, Checksum, END_BYTES, MARK, check, damaged};

/// Reads the numbers of a file in the order in which they were written, and finds its data.
#[derive(Debug)]
pub struct Reader {
    file: Arc<File>,
    numbers: Vec<u8>,
    at: usize,
    /// The offset of the next data, and the end of all data.
    next: u64,
    end: u64,
}

/// Data in a file.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    file: Arc<File>,
    offset: u64,
    length: usize,
}

impl Stored {
    /// Returns the number of bytes.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Reads the data. Bytes that are missing are 0, which happens only if another program changes
    /// the file.
    pub(crate) fn read(&self) -> Vec<u8> {
        let mut data = vec![0; self.length];
        if self.file.read_exact_at(&mut data, self.offset).is_err() {
            data.fill(0);
        }
        data
    }
}

impl Reader {
    /// Opens a file, and compares its checksum.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, is not a saved trace of this version, or is damaged.
    pub fn open(file: File) -> io::Result<Self> {
        let size = file.metadata()?.len();
        let Some(length) = size.checked_sub(END_BYTES as u64) else {
            return Err(damaged());
        };
        let mut end = [0; END_BYTES];
        file.read_exact_at(&mut end, length)?;
        let (words, _) = end.as_chunks::<8>();
        let [numbers, sum, mark] = [words[0], words[1], words[2]];
        let numbers_length = u64::from_le_bytes(numbers);
        let Some(data) = length.checked_sub(numbers_length).filter(|_| mark == MARK) else {
            return Err(damaged());
        };
        let checked = length ^ numbers_length.rotate_left(32);
        if checksum(&file, length)?.finish(checked) != u64::from_le_bytes(sum) {
            return Err(damaged());
        }
        let mut numbers = vec![0; usize::try_from(numbers_length).map_err(|_| damaged())?];
        file.read_exact_at(&mut numbers, data)?;
        Ok(Self {
            file: Arc::new(file),
            numbers,
            at: 0,
            next: 0,
            end: data,
        })
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
        self.next = next.filter(|next| *next <= self.end).ok_or_else(damaged)?;
        Ok(Stored {
            file: self.file.clone(),
            offset,
            length,
        })
    }

    /// Reads bytes.
    ///
    /// # Errors
    ///
    /// Fails if there are fewer.
    pub fn bytes(&mut self) -> io::Result<Vec<u8>> {
        let length = self.small()?;
        let stored = self.stored(length)?;
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, stored.offset)?;
        Ok(bytes)
    }
}

fn checksum(file: &File, length: u64) -> io::Result<Checksum> {
    let mut sum = Checksum::new();
    let mut chunk = vec![0; CHUNK];
    let mut at = 0;
    while at < length {
        let count = (length - at).min(CHUNK as u64) as usize;
        file.read_exact_at(&mut chunk[..count], at)?;
        sum.add(&chunk[..count]);
        at += count as u64;
    }
    Ok(sum)
}
