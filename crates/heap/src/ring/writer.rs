//! The client's side of the ring.

use super::{
    MAGIC, Mapping, Metadata, Ordering, error_state, fence, padded_size, statistic, unread,
};
use crate::sys;

/// The reason why a record was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// The ring is full.
    Now,
    /// The record is larger than the ring.
    Always,
}

/// Attempts to lock between two sleeps.
const SPINS: u32 = 1024;
/// Sleeps of a millisecond before the lock fails.
const SLEEPS: u32 = 1000;

/// Writes records into a ring.
#[derive(Debug)]
pub struct Writer {
    mapping: Mapping,
}

impl Writer {
    /// Creates the writer of a ring.
    #[must_use]
    pub fn new(mapping: Mapping) -> Self {
        Self { mapping }
    }

    /// Returns the address and length of the ring's memory.
    #[must_use]
    pub fn range(&self) -> (usize, usize) {
        self.mapping.range()
    }

    /// Returns true if the profiler on the other side is ours.
    #[must_use]
    pub fn is_extended(&self) -> bool {
        self.metadata().extension.magic.load(Ordering::Acquire) == MAGIC
    }

    /// Returns the maximum number of bytes of a stack to copy.
    #[must_use]
    pub fn stack_bytes(&self) -> usize {
        if self.is_extended() {
            self.metadata()
                .extension
                .stack_bytes
                .load(Ordering::Relaxed) as usize
        } else {
            usize::MAX
        }
    }

    /// Returns true if stacks need not be copied, since their frame pointers are sufficient.
    #[must_use]
    pub fn is_chain_enough(&self) -> bool {
        self.metadata().extension.chain_only.load(Ordering::Relaxed) != 0
    }

    /// Returns true if the profiler has ended the session.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.metadata().is_shutting_down.load(Ordering::Relaxed) != 0
    }

    /// Sets the reason why the client ends the session.
    pub fn set_error(&self, error: u64) {
        let state = &self.metadata().error_state;
        let _ = state.compare_exchange(
            error_state::NONE,
            error,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }

    /// Counts a sample lost because the ring was full.
    pub fn lost(&self) {
        self.metadata()
            .extension
            .lost
            .fetch_add(1, Ordering::Relaxed);
    }

    /// Returns true once for each time that the reader begins to wait for a byte on the socket.
    /// Call it after each record.
    #[must_use]
    pub fn takes_pause(&self) -> bool {
        // The reader begins to wait before it looks for records for the last time, and this side
        // writes a record before it looks for a waiting reader. Without the fence, both could miss
        // what the other wrote.
        fence(Ordering::SeqCst);
        let paused = &self.metadata().is_reader_paused;
        paused.load(Ordering::Acquire) != 0 && paused.swap(0, Ordering::AcqRel) != 0
    }

    /// Returns the number of free bytes.
    #[must_use]
    pub fn free(&self) -> u64 {
        let metadata = self.metadata();
        let read = metadata.read_position.load(Ordering::Relaxed);
        let write = metadata.write_position.load(Ordering::Relaxed);
        let unread = unread(read, write, self.mapping.size());
        unread.map_or(0, |unread| self.mapping.size() - unread)
    }

    /// Returns the end position of the written records.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.metadata().write_position.load(Ordering::Relaxed)
    }

    /// Returns true if the profiler has read all records before a position.
    #[must_use]
    pub fn is_read(&self, position: u64) -> bool {
        self.metadata().read_position.load(Ordering::Relaxed) >= position
    }

    /// Returns the size of the ring.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.mapping.size()
    }

    /// Writes a record of `size` bytes, which `copy` writes to the given address.
    ///
    /// # Errors
    ///
    /// Fails if there is not enough space.
    pub fn write(&self, size: usize, copy: impl FnOnce(*mut u8)) -> Result<(), Full> {
        let metadata = self.metadata();
        let needed = padded_size(size as u64).filter(|&needed| needed <= self.mapping.size());
        let needed = needed.ok_or(Full::Always)?;
        if size > u32::MAX as usize || !lock(metadata) {
            return Err(Full::Always);
        }
        let write = metadata.write_position.load(Ordering::Acquire);
        // The reader has copied the freed bytes before this record overwrites them.
        let read = metadata.read_position.load(Ordering::Acquire);
        let Some(unread) = unread(read, write, self.mapping.size()) else {
            count(metadata, statistic::WRITES_CORRUPT, 1);
            unlock(metadata);
            return Err(Full::Always);
        };
        if needed > self.mapping.size() - unread {
            count(metadata, statistic::WRITES_OVERFLOW, 1);
            unlock(metadata);
            return Err(Full::Now);
        }
        let header = self.mapping.header(write);
        header.store(0, Ordering::Relaxed);
        metadata
            .write_position
            .store(write + needed, Ordering::Release);
        count(metadata, statistic::BYTES_WRITTEN, needed);
        count(metadata, statistic::WRITES, 1);
        unlock(metadata);
        // The `needed` bytes are reserved for this record and its header.
        self.mapping.fill(write, copy);
        header.store(size as u32, Ordering::Release);
        Ok(())
    }

    fn metadata(&self) -> &Metadata {
        self.mapping.metadata()
    }
}

/// Adds to a statistic. Call it only under the lock.
fn count(metadata: &Metadata, index: usize, by: u64) {
    let counter = &metadata.statistics[index];
    counter.store(
        counter.load(Ordering::Relaxed).wrapping_add(by),
        Ordering::Relaxed,
    );
}

/// Locks the ring. Returns false and poisons the lock after about a second.
fn lock(metadata: &Metadata) -> bool {
    for sleeps in 0..SLEEPS {
        for _ in 0..SPINS {
            if metadata.poisoned.load(Ordering::Relaxed) != 0 {
                return false;
            }
            let is_free = metadata.locked.load(Ordering::Relaxed) == 0;
            if is_free && metadata.locked.swap(1, Ordering::Acquire) == 0 {
                metadata
                    .blocked_us
                    .fetch_add(u64::from(sleeps) * 1000, Ordering::Relaxed);
                return true;
            }
            core::hint::spin_loop();
        }
        sys::sleep_us(1000);
    }
    metadata.failed_locks.fetch_add(1, Ordering::Relaxed);
    metadata.poisoned.store(1, Ordering::Relaxed);
    false
}

fn unlock(metadata: &Metadata) {
    metadata.locked.store(0, Ordering::Release);
}
