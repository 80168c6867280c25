//! An ELF file in a process's memory: the vDSO, and files that can no longer be opened.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use ferretto_elf::ReadAt;

use crate::maps::Map;

/// A part of the file, and its address.
#[derive(Clone, Copy, Debug)]
struct Part {
    offset: u64,
    size: u64,
    address: u64,
}

/// Reads a file's bytes through its maps.
pub(crate) struct Image {
    memory: Arc<File>,
    parts: Vec<Part>,
}

impl Image {
    /// Creates the image of the file with these maps. Writable maps are left out, since they may
    /// have changed.
    pub(crate) fn new<'m>(memory: Arc<File>, maps: impl Iterator<Item = &'m Map>) -> Self {
        let parts = maps
            .filter(|map| map.readable && !map.writable)
            .map(|map| Part {
                offset: map.offset,
                size: map.end - map.start,
                address: map.start,
            })
            .collect();
        Self { memory, parts }
    }
}

impl ReadAt for Image {
    fn read_exact_at(&self, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            let part = self
                .parts
                .iter()
                .find(|part| offset.wrapping_sub(part.offset) < part.size)
                .ok_or(io::ErrorKind::UnexpectedEof)?;
            let within = offset - part.offset;
            let left = usize::try_from(part.size - within).unwrap_or(usize::MAX);
            let (now, later) = buffer.split_at_mut(left.min(buffer.len()));
            let address = part.address + within;
            if i64::try_from(address).is_err() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            FileExt::read_exact_at(&*self.memory, now, address)?;
            offset += now.len() as u64;
            buffer = later;
        }
        Ok(())
    }

    fn size(&self) -> Option<u64> {
        None
    }
}
