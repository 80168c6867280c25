//! The memory shared with the kernel.

use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::mm::{self, MapFlags, ProtFlags};

use super::{Memory, Overrun, Unread};

/// Offsets in the metadata page (`struct perf_event_mmap_page`).
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;
const DATA_OFFSET: usize = 1040;
const DATA_SIZE: usize = 1048;

/// The reason why a ring cannot be mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// The kernel refused the mapping.
    #[error("{0}")]
    Refused(Errno),
    /// The kernel's layout of the ring is unknown.
    #[error(
        "the kernel's ring has {size} bytes of data at {offset}, not {expected_size} at {expected_offset}"
    )]
    Layout {
        /// The offset of the data.
        offset: u64,
        /// The size of the data in bytes.
        size: u64,
        /// The expected offset.
        expected_offset: u64,
        /// The expected size.
        expected_size: u64,
    },
}

/// The mapped ring of an event: one page of metadata, then the data.
///
/// The mapping is writable, which makes the kernel wait for the reader instead of overwriting
/// unread records.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    page: usize,
    /// The size of the data, a power of two.
    size: usize,
    /// The number of bytes read so far, as last reported to the kernel. Kept here, since memory
    /// that others can write is not trusted.
    tail: u64,
    /// The number of bytes written so far, as last read from the kernel.
    head: u64,
}

// SAFETY: the memory has no thread affinity, and all access to it goes through `&mut self`.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps the ring of an event, with `pages` pages of data, a power of two.
    ///
    /// # Errors
    ///
    /// Fails if the kernel refuses, or uses another layout.
    pub fn new(event: BorrowedFd<'_>, pages: u32) -> Result<Self, MapError> {
        let page = rustix::param::page_size();
        let too_large = MapError::Refused(Errno::NOMEM);
        let size = page.checked_mul(pages as usize).ok_or(too_large)?;
        let length = size.checked_add(page).ok_or(too_large)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing that Rust
        // knows of.
        let base = unsafe { mm::mmap(ptr::null_mut(), length, access, MapFlags::SHARED, event, 0) };
        let base = base.map_err(MapError::Refused)?;
        let base = NonNull::new(base.cast()).ok_or(too_large)?;
        let mapping = Self {
            base,
            page,
            size,
            tail: 0,
            head: 0,
        };
        mapping.check_layout()?;
        Ok(mapping)
    }

    /// Returns the size of the data.
    pub fn size(&self) -> usize {
        self.size
    }

    fn check_layout(&self) -> Result<(), MapError> {
        let offset = self.word(DATA_OFFSET).load(Ordering::Relaxed);
        let size = self.word(DATA_SIZE).load(Ordering::Relaxed);
        let (expected_offset, expected_size) = (self.page as u64, self.size as u64);
        if (offset, size) == (expected_offset, expected_size) {
            return Ok(());
        }
        Err(MapError::Layout {
            offset,
            size,
            expected_offset,
            expected_size,
        })
    }

    /// Returns a word of the metadata.
    fn word(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at.is_multiple_of(8) && at + 8 <= self.page);
        // SAFETY: within the first page of the mapping, which is valid as long as `self`, and
        // aligned, as pages are. The kernel accesses these words atomically too, and nothing here
        // accesses them otherwise.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(at).cast()) }
    }
}

impl Memory for Mapping {
    fn unread(&mut self) -> Result<Unread<'_>, Overrun> {
        // Acquire: records that the kernel wrote before it moved the head are visible after this
        // load.
        self.head = self.word(DATA_HEAD).load(Ordering::Acquire);
        let length = self.head.wrapping_sub(self.tail);
        if length > self.size as u64 {
            return Err(Overrun(length));
        }
        let at = self.tail as usize & (self.size - 1);
        // SAFETY: the data are behind the page of metadata and `size` bytes long, and both
        // slices are inside, because `length` is at most `size`. They cover the bytes between tail
        // and head: the kernel does not write there until the tail moves, which takes `&mut self`
        // and so the end of this borrow. No other process can have the mapping, since the kernel
        // does not let it be inherited.
        let unread = unsafe {
            let data = self.base.as_ptr().add(self.page);
            let upto_end = self.size - at;
            let first = (length as usize).min(upto_end);
            Unread::of_parts(
                std::slice::from_raw_parts(data.add(at), first),
                std::slice::from_raw_parts(data, length as usize - first),
            )
        };
        Ok(unread)
    }

    fn consume(&mut self, count: usize) {
        let unread = self.head.wrapping_sub(self.tail);
        self.tail = self.tail.wrapping_add(unread.min(count as u64));
        // Release: reads of the records are finished before the kernel overwrites them.
        self.word(DATA_TAIL).store(self.tail, Ordering::Release);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, of the same length; nothing borrows from it any more.
        let unmapped = unsafe { mm::munmap(self.base.as_ptr().cast(), self.size + self.page) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}
