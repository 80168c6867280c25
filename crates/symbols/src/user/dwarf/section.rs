//! Sections that are read in parts, on request.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;

use ferretto_elf::Elf;
use gimli::{EndianSlice, LittleEndian};

use super::budget::{Budget, Problem};

pub(super) type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// The block size of small reads, since neighbouring bytes are often needed next.
const BLOCK: u64 = 64 << 10;
/// The largest read.
const MAX_READ: u64 = 512 << 20;
/// The largest compressed section, which has to be in memory as a whole.
const MAX_COMPRESSED: u64 = 512 << 20;
/// The largest size of a string. Longer ones are cut off.
const MAX_STRING: u64 = 4096;

#[derive(Debug)]
enum Contents {
    Absent,
    File { offset: u64, size: u64 },
    Memory(Vec<u8>),
}

/// A section of debug information.
#[derive(Debug)]
pub(super) struct Section<'e> {
    pub(super) elf: &'e Elf,
    contents: Contents,
    /// The last block, and its offset in the section.
    block: RefCell<(u64, Vec<u8>)>,
}

impl<'e> Section<'e> {
    /// Opens the section called `name`. An absent one is empty.
    pub(super) fn open(elf: &'e Elf, name: &str) -> Result<Self, Problem> {
        let header = elf.section_header(name).filter(|header| header.has_data());
        let contents = match header {
            None => Contents::Absent,
            Some(header) if header.is_compressed() => {
                Contents::Memory(elf.section_data(header, MAX_COMPRESSED)?)
            }
            Some(header) => Contents::File {
                offset: header.offset,
                size: header.size,
            },
        };
        Ok(Self {
            elf,
            contents,
            block: RefCell::new((0, Vec::new())),
        })
    }

    /// Restricts the section to a part, if one is given.
    pub(super) fn part(mut self, part: Option<Range<u64>>) -> Result<Self, Problem> {
        let Some(Range { start, end }) = part else {
            return Ok(self);
        };
        if start > end || end > self.size() {
            return Err(Problem::Inconsistent(
                "a part is beyond the end of its section",
            ));
        }
        match &mut self.contents {
            Contents::Absent => {}
            Contents::File { offset, size } => {
                *offset = offset.saturating_add(start);
                *size = end - start;
            }
            Contents::Memory(bytes) => {
                bytes.truncate(end as usize);
                bytes.drain(..start as usize);
            }
        }
        Ok(self)
    }

    pub(super) fn size(&self) -> u64 {
        match &self.contents {
            Contents::Absent => 0,
            Contents::File { size, .. } => *size,
            Contents::Memory(bytes) => bytes.len() as u64,
        }
    }

    /// Reads exactly these bytes.
    pub(super) fn read(&self, offset: u64, length: u64) -> Result<Cow<'_, [u8]>, Problem> {
        const BEYOND: Problem = Problem::Inconsistent("an offset is beyond the end of its section");
        let end = offset.checked_add(length).filter(|&end| end <= self.size());
        let end = end.ok_or(BEYOND)?;
        match &self.contents {
            Contents::Absent => Ok(Cow::Borrowed(&[])),
            Contents::Memory(bytes) => Ok(Cow::Borrowed(&bytes[offset as usize..end as usize])),
            Contents::File {
                offset: start,
                size,
            } => {
                let start = start.checked_add(offset).ok_or(BEYOND)?;
                if length > BLOCK {
                    return Ok(Cow::Owned(self.elf.data(start, length, MAX_READ)?));
                }
                let mut block = self.block.borrow_mut();
                let (first, bytes) = &mut *block;
                if offset < *first || end > *first + bytes.len() as u64 {
                    *bytes = self.elf.data(start, BLOCK.min(size - offset), BLOCK)?;
                    *first = offset;
                }
                let within = (offset - *first) as usize;
                Ok(Cow::Owned(bytes[within..within + length as usize].to_vec()))
            }
        }
    }

    /// Parses an item of unknown size at `offset`. `parse` gets the lower number of bytes of
    /// `lengths`, and more, up to the higher number, while it needs more.
    pub(super) fn parse<T>(
        &self,
        offset: u64,
        lengths: Range<u64>,
        budget: &Budget,
        mut parse: impl FnMut(Slice<'_>) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let most = self.size().saturating_sub(offset).min(lengths.end);
        let mut length = lengths.start.min(most);
        loop {
            // Reading has a cost, too, and parsing may touch all bytes.
            budget.spend(1 + length / 256)?;
            let bytes = self.read(offset, length)?;
            match parse(EndianSlice::new(&bytes, LittleEndian)) {
                Err(Problem::Malformed(gimli::Error::UnexpectedEof(_))) if length < most => {
                    length = length.saturating_mul(16).min(most);
                }
                done => return done,
            }
        }
    }

    /// Reads the number of `size` bytes at `offset`.
    pub(super) fn number(&self, offset: u64, size: u8) -> Result<u64, Problem> {
        let bytes = self.read(offset, u64::from(size.min(8)))?;
        let digits = bytes.iter().rev();
        Ok(digits.fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    /// Reads the string at `offset`.
    pub(super) fn string(&self, offset: u64) -> Result<String, Problem> {
        let rest = self.size().saturating_sub(offset);
        for length in [256, MAX_STRING] {
            let bytes = self.read(offset, length.min(rest))?;
            let end = bytes.iter().position(|&byte| byte == 0);
            if let Some(end) = end {
                return Ok(text(&bytes[..end]));
            }
            if length == MAX_STRING {
                return Ok(text(&bytes));
            }
        }
        Ok(String::new())
    }
}

/// Converts at most [`MAX_STRING`] bytes to text.
pub(super) fn text(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(MAX_STRING as usize)];
    String::from_utf8_lossy(bytes).into_owned()
}
