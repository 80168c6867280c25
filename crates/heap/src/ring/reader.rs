//! The profiler's side of the ring.

#[cfg(not(loom))]
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

#[cfg(not(loom))]
use super::is_valid_size;
use super::{HEADER, MAGIC, Mapping, Metadata, Ordering, fence, padded_size, statistic, unread};
#[cfg(not(loom))]
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
    #[cfg(not(loom))]
    #[must_use]
    pub fn create(size: u64) -> Option<(Self, OwnedFd)> {
        if !is_valid_size(size) {
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
            sys::ftruncate(fd, (sys::page_size() as u64 + size) as i64) == 0
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
        let size = self.mapping.header(self.position).load(Ordering::Acquire);
        if size == 0 {
            return Read::Nothing;
        }
        let Some(needed) = padded_size(size.into()).filter(|&needed| needed <= available) else {
            return Read::Corrupt;
        };
        let Some(record) = buffer.get_mut(..size as usize) else {
            return Read::Corrupt;
        };
        self.mapping.read(self.position, record);
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

    /// Makes the client send a byte on the socket when there is something to read. Wait for it only
    /// if nothing is [`unread`](Self::unread) afterwards.
    pub fn pause(&self) {
        self.metadata().is_reader_paused.store(1, Ordering::SeqCst);
        // Orders the store before the last look for records, as in `Writer::takes_pause`.
        fence(Ordering::SeqCst);
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

#[cfg(all(loom, test))]
impl Reader {
    pub(super) fn of(mapping: Mapping) -> Self {
        Self {
            mapping,
            position: 0,
        }
    }
}
