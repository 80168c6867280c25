//! The profiler's side of the ring.

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use super::{HEADER, MAGIC, MAX_SIZE, MIN_SIZE, Mapping, Metadata, PAGE, room, statistic, unread};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::sys;

/// The result of an attempt to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// A record of so many bytes was copied.
    Record(usize),
    /// The ring is empty.
    Nothing,
    /// The ring is corrupt and unusable.
    Corrupt,
}

/// Reads records of an untrusted writer.
#[derive(Debug)]
pub struct Reader {
    mapping: Mapping,
    /// The position that this side believes: the shared one is the client's, too.
    position: u64,
}

impl Reader {
    /// A new ring, and the descriptor of its memory, which nobody can resize. `None` if that is no
    /// size of a ring, or there is no memory.
    #[must_use]
    pub fn create(size: u64) -> Option<(Self, OwnedFd)> {
        if !size.is_power_of_two() || !(MIN_SIZE..=MAX_SIZE).contains(&size) {
            return None;
        }
        // SAFETY: the name ends with a 0; the descriptor is this function's until it is returned.
        let fd = unsafe {
            let flags = sys::MFD_CLOEXEC | sys::MFD_ALLOW_SEALING;
            sys::memfd_create(c"ferretto-heap".as_ptr(), flags)
        };
        if fd < 0 {
            return None;
        }
        // SAFETY: the descriptor was just made, and is nobody else's.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: the descriptor is open.
        let is_sized = unsafe {
            sys::ftruncate(fd, (PAGE as u64 + size) as i64) == 0
                && sys::fcntl(fd, sys::F_ADD_SEALS, sys::SEALS) == 0
        };
        let mapping = Mapping::new(file.as_raw_fd()).filter(|_| is_sized)?;
        let reader = Self {
            mapping,
            position: 0,
        };
        Some((reader, file))
    }

    /// Makes the session an extended one, before the client gets the ring.
    pub fn extend(&self, stack_bytes: u32) {
        let extension = &self.metadata().extension;
        extension.stack_bytes.store(stack_bytes, Ordering::Relaxed);
        extension.magic.store(MAGIC, Ordering::Release);
    }

    /// Tells the client whether frame pointers alone will do.
    pub fn set_chain_enough(&self, is_enough: bool) {
        let extension = &self.metadata().extension;
        extension
            .chain_only
            .store(is_enough.into(), Ordering::Relaxed);
    }

    /// Reads the next record into the beginning of `buffer`, which has to have the ring's size.
    pub fn read(&mut self, buffer: &mut [u8]) -> Read {
        let metadata = self.mapping.metadata();
        let write = metadata.write_position.load(Ordering::Acquire);
        let is_moved = metadata.read_position.load(Ordering::Relaxed) != self.position;
        let Some(available) = unread(self.position, write, self.mapping.size()) else {
            return Read::Corrupt;
        };
        if is_moved {
            return Read::Corrupt;
        }
        if available < HEADER {
            return Read::Nothing;
        }
        let start = self.mapping.at(self.position);
        // SAFETY: the data is mapped twice; the position is a multiple of 8 within it.
        let size = unsafe { &*start.cast::<AtomicU32>() }.load(Ordering::Acquire);
        if size == 0 {
            return Read::Nothing;
        }
        let Some(needed) = room(size.into()).filter(|&needed| needed <= available) else {
            return Read::Corrupt;
        };
        let Some(record) = buffer.get_mut(..size as usize) else {
            return Read::Corrupt;
        };
        // SAFETY: the record lies behind its header, within the data that is mapped twice.
        copy(unsafe { start.add(HEADER as usize) }, record);
        self.position += needed;
        metadata
            .read_position
            .store(self.position, Ordering::Release);
        Read::Record(size as usize)
    }

    /// Bytes of the ring that are in use.
    #[must_use]
    pub fn unread(&self) -> u64 {
        let write = self.metadata().write_position.load(Ordering::Relaxed);
        unread(self.position, write, self.mapping.size()).unwrap_or(0)
    }

    /// Asks for a byte on the socket when there is something to read.
    pub fn pause(&self) {
        self.metadata().is_reader_paused.store(1, Ordering::SeqCst);
    }

    /// Ends the session for the client.
    pub fn shut_down(&self) {
        self.metadata().is_shutting_down.store(1, Ordering::SeqCst);
    }

    /// Returns why the client ended the session, see [`error_state`](super::error_state).
    #[must_use]
    pub fn error_state(&self) -> u64 {
        self.metadata().error_state.load(Ordering::Relaxed)
    }

    /// Returns the number of samples lost because the ring was full.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.metadata().extension.lost.load(Ordering::Relaxed)
    }

    /// Microseconds that the client waited for locks.
    #[must_use]
    pub fn blocked_us(&self) -> u64 {
        self.metadata().blocked_us.load(Ordering::Relaxed)
    }

    /// Returns true if the client found the ring corrupt.
    #[must_use]
    pub fn is_corrupt(&self) -> bool {
        self.metadata().statistics[statistic::WRITES_CORRUPT].load(Ordering::Relaxed) > 0
    }

    fn metadata(&self) -> &Metadata {
        self.mapping.metadata()
    }
}

/// Copies a record out of the ring, from an address that is a multiple of 8.
fn copy(from: *const u8, record: &mut [u8]) {
    let (words, rest) = record.as_chunks_mut::<8>();
    let done = words.len() * 8;
    for (number, word) in words.iter_mut().enumerate() {
        // SAFETY: as many bytes as the record has lie behind `from`. The client may write at the
        // same time, so loads are atomic.
        let value = unsafe { &*from.cast::<AtomicU64>().add(number) };
        *word = value.load(Ordering::Relaxed).to_ne_bytes();
    }
    for (number, byte) in rest.iter_mut().enumerate() {
        // SAFETY: as above.
        let value = unsafe { &*from.cast::<AtomicU8>().add(done + number) };
        *byte = value.load(Ordering::Relaxed);
    }
}
