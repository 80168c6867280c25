//! Sources of a file's bytes.

use std::fs::File;
use std::io;
use std::sync::Arc;

/// A source of bytes with random access: a regular file, or its image in a process's memory.
pub trait ReadAt: Send + Sync {
    /// Fills `buffer` with the bytes at `offset`.
    ///
    /// # Errors
    /// Fails if the source ends first, or reading fails.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Returns the number of bytes, if known.
    fn size(&self) -> Option<u64>;
}

impl ReadAt for File {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        // The kernel's error for too large offsets is unclear.
        if i64::try_from(offset).is_err() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        std::os::unix::fs::FileExt::read_exact_at(self, buffer, offset)
    }

    fn size(&self) -> Option<u64> {
        self.metadata().ok().map(|metadata| metadata.len())
    }
}

impl ReadAt for [u8] {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let bytes = usize::try_from(offset)
            .ok()
            .and_then(|start| self.get(start..start.checked_add(buffer.len())?))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }

    fn size(&self) -> Option<u64> {
        Some(self.len() as u64)
    }
}

impl ReadAt for Vec<u8> {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.as_slice().read_exact_at(buffer, offset)
    }

    fn size(&self) -> Option<u64> {
        Some(self.len() as u64)
    }
}

impl<T: ReadAt + ?Sized> ReadAt for Arc<T> {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        T::read_exact_at(self, buffer, offset)
    }

    fn size(&self) -> Option<u64> {
        T::size(self)
    }
}
