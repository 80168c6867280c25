//! Parts of a file that are read on request.

use std::fmt;
use std::sync::Arc;

use crate::ElfError;
use crate::header::Image;
use crate::read_at::ReadAt;

/// A section or another part of an ELF file, which is read on request. Clones share the file.
#[derive(Clone)]
pub struct Part {
    image: Image<Arc<dyn ReadAt>>,
    offset: u64,
    size: u64,
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part")
            .field("offset", &self.offset)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

impl Part {
    pub(crate) fn new(image: Image<Arc<dyn ReadAt>>, offset: u64, size: u64) -> Self {
        Self {
            image,
            offset,
            size,
        }
    }

    /// Creates a part from bytes in memory.
    #[must_use]
    pub fn of_bytes(bytes: Vec<u8>) -> Self {
        let size = bytes.len() as u64;
        let image = Image {
            source: Arc::new(bytes) as Arc<dyn ReadAt>,
            start: 0,
            size: Some(size),
        };
        Self::new(image, 0, size)
    }

    /// Returns the number of bytes according to the headers. The file may have fewer.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Fills `buffer` with the bytes at offset `at` of the part.
    ///
    /// # Errors
    /// Fails if the part ends first, or the file lacks the bytes.
    pub fn read_exact(&self, at: u64, buffer: &mut [u8]) -> Result<(), ElfError> {
        const END: ElfError = ElfError::Malformed("part");
        let end = at.checked_add(buffer.len() as u64).ok_or(END)?;
        if end > self.size {
            return Err(END);
        }
        let offset = self.offset.checked_add(at).ok_or(END)?;
        self.image.read_exact(buffer, offset)
    }

    /// Replaces the content of `buffer` with up to `most` bytes at offset `at`. They are fewer at
    /// the end of the part.
    ///
    /// # Errors
    /// Fails if the part ends before `at`, or the file lacks the bytes.
    pub fn read(&self, at: u64, most: usize, buffer: &mut Vec<u8>) -> Result<(), ElfError> {
        buffer.clear();
        let left = self
            .size
            .checked_sub(at)
            .ok_or(ElfError::Malformed("part"))?;
        let count = usize::try_from(left).map_or(most, |left| left.min(most));
        buffer.resize(count, 0);
        self.read_exact(at, buffer)
    }

    /// Returns a copy of the part in memory.
    ///
    /// # Errors
    /// Fails if the part is larger than `limit`, or the file lacks the bytes.
    pub fn load(&self, limit: u64) -> Result<Self, ElfError> {
        let bytes = self.image.read("part", self.offset, self.size, limit)?;
        Ok(Self::of_bytes(bytes))
    }
}
