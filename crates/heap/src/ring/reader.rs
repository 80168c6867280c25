//! The profiler's side of the ring.

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use super::{
    HEADER, MAGIC, MAX_SIZE, MIN_SIZE, Mapping, Metadata, PAGE, padded_size, statistic, unread,
};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::sys;

/// The result of an attempt to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// A record of this size was copied.
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
    /// This side's own copy of the position, since the client can write the shared one.
    position: u64,
}

impl Reader {
    /// Creates a ring. Also returns the descriptor of its memory, whose size is sealed. `None` if
    /// the size is not valid or the creation fails.
    #[must_use]
    pub fn create(size: u64) -> Option<(Self, OwnedFd)> {
        if !size.is_power_of_two() || !(MIN_SIZE..=MAX_SIZE).contains(&size) {
            return None;
        }
        // SAFETY: the name ends with a 0.
        let fd = unsafe {
            let flags = sys::MFD_CLOEXEC | sys::MFD_ALLOW_SEALING;
            sys::memfd_create(c"ferretto-heap".as_ptr(), flags)
        };
        if fd < 0 {
            return None;
        }
        // SAFETY: the descriptor was just created and has no other owner.
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

    /// Marks the session as an extended one. Call it before sending the ring to the client.
    pub fn extend(&self, stack_bytes: u32) {
        let extension = &self.metadata().extension;
        extension.stack_bytes.store(stack_bytes, Ordering::Relaxed);
        extension.magic.store(MAGIC, Ordering::Release);
    }

    /// Tells the client not to copy stacks if frame pointers are sufficient.
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
        let Some(needed) = padded_size(size.into()).filter(|&needed| needed <= available) else {
            return Read::Corrupt;
        };
        let Some(record) = buffer.get_mut(..size as usize) else {
            return Read::Corrupt;
        };
        // SAFETY: the record follows its header, within the data that is mapped twice.
        copy(unsafe { start.add(HEADER as usize) }, record);
        self.position += needed;
        metadata
            .read_position
            .store(self.position, Ordering::Release);
        Read::Record(size as usize)
    }

    /// Returns the number of unread bytes.
    #[must_use]
    pub fn unread(&self) -> u64 {
        let write = self.metadata().write_position.load(Ordering::Relaxed);
        unread(self.position, write, self.mapping.size()).unwrap_or(0)
    }

    /// Makes the client send a byte on the socket when there is something to read.
    pub fn pause(&self) {
        self.metadata().is_reader_paused.store(1, Ordering::SeqCst);
    }

    /// Ends the session for the client.
    pub fn shut_down(&self) {
        self.metadata().is_shutting_down.store(1, Ordering::SeqCst);
    }

    /// Returns the reason why the client ended the session, see
    /// [`error_state`](super::error_state).
    #[must_use]
    pub fn error_state(&self) -> u64 {
        self.metadata().error_state.load(Ordering::Relaxed)
    }

    /// Returns the number of samples lost because the ring was full.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.metadata().extension.lost.load(Ordering::Relaxed)
    }

    /// Returns the total time that the client waited for locks, in microseconds.
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

/// Copies a record out of the ring. `from` must be aligned to 8.
fn copy(from: *const u8, record: &mut [u8]) {
    let (words, rest) = record.as_chunks_mut::<8>();
    let done = words.len() * 8;
    for (number, word) in words.iter_mut().enumerate() {
        // SAFETY: the record's bytes follow `from`. The client may write them at the same time, so
        // the loads are atomic.
        let value = unsafe { &*from.cast::<AtomicU64>().add(number) };
        *word = value.load(Ordering::Relaxed).to_ne_bytes();
    }
    for (number, byte) in rest.iter_mut().enumerate() {
        // SAFETY: as above.
        let value = unsafe { &*from.cast::<AtomicU8>().add(done + number) };
        *byte = value.load(Ordering::Relaxed);
    }
}
