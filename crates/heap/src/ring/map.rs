//! The mapped memory of a ring, which is the same on both sides.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use super::{HEADER, Metadata, is_valid_size};
use crate::sys;

/// A ring's memory: the metadata page, then the data twice in a row.
#[derive(Debug)]
pub struct Mapping {
    base: *mut u8,
    size: u64,
    /// The size of the metadata page.
    page: usize,
}

// SAFETY: the mapping is valid in all threads. Accesses to the page are atomic, and they order the
// accesses to the data.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the ring in a file, whose size determines the ring's. Returns `None` if that is not a
    /// valid size or the mapping fails.
    #[must_use]
    pub fn new(fd: c_int) -> Option<Self> {
        let mut stat = sys::Stat::default();
        // SAFETY: `stat` is large enough.
        if unsafe { sys::fstat(fd, &mut stat) } != 0 {
            return None;
        }
        let page = sys::page_size();
        let size = u64::try_from(stat.size).ok()?.checked_sub(page as u64)?;
        if !is_valid_size(size) {
            return None;
        }
        let data = size as usize;
        let whole = page + 2 * data;
        let flags = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE;
        // SAFETY: a new mapping does not affect existing memory.
        let base = unsafe { sys::mmap(ptr::null_mut(), whole, sys::PROT_NONE, flags, -1, 0) };
        if base as isize == -1 {
            return None;
        }
        let mapping = Self {
            base: base.cast(),
            size,
            page,
        };
        let access = sys::PROT_READ | sys::PROT_WRITE;
        let flags = sys::MAP_SHARED | sys::MAP_FIXED;
        let parts = [(0, page + data, 0), (page + data, data, page)];
        for (at, length, offset) in parts {
            // SAFETY: the range lies within the mapping made above.
            let mapped = unsafe {
                let address = mapping.base.add(at).cast::<c_void>();
                sys::mmap(address, length, access, flags, fd, offset as i64)
            };
            if mapped as isize == -1 {
                return None;
            }
        }
        Some(mapping)
    }

    /// Returns the number of bytes of the data.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the address and length of the whole mapping.
    #[must_use]
    pub fn range(&self) -> (usize, usize) {
        (self.base as usize, self.page + 2 * self.size as usize)
    }

    pub(crate) fn metadata(&self) -> &Metadata {
        // SAFETY: the first page is mapped for as long as `self` lives. Its fields are atomic
        // integers, for which all bytes are valid.
        unsafe { &*self.base.cast::<Metadata>() }
    }

    /// Returns the header of the record at a position, which is a multiple of 8.
    pub(super) fn header(&self, position: u64) -> &AtomicU32 {
        debug_assert!(position.is_multiple_of(8));
        // SAFETY: the data is mapped twice, so at least its size follows the address, and the
        // header is aligned. It is an atomic integer, for which all bytes are valid.
        unsafe { &*self.at(position).cast::<AtomicU32>() }
    }

    /// Calls `copy` with the address of the content of the record at a position.
    pub(super) fn fill(&self, position: u64, copy: impl FnOnce(*mut u8)) {
        // SAFETY: the content follows the header.
        copy(unsafe { self.at(position).add(HEADER as usize) });
    }

    /// Copies the content of the record at a position, which is a multiple of 8.
    #[cfg_attr(not(feature = "profiler"), allow(dead_code))]
    pub(super) fn read(&self, position: u64, record: &mut [u8]) {
        // SAFETY: the content follows the header, within the data that is mapped twice.
        let from = unsafe { self.at(position).add(HEADER as usize) };
        let (words, rest) = record.as_chunks_mut::<8>();
        let done = words.len() * 8;
        for (number, word) in words.iter_mut().enumerate() {
            // SAFETY: the record's bytes follow `from`. The client may write them at the same time,
            // so the loads are atomic.
            let value = unsafe { &*from.cast::<AtomicU64>().add(number) };
            *word = value.load(Ordering::Relaxed).to_ne_bytes();
        }
        for (number, byte) in rest.iter_mut().enumerate() {
            // SAFETY: as above.
            let value = unsafe { &*from.cast::<AtomicU8>().add(done + number) };
            *byte = value.load(Ordering::Relaxed);
        }
    }

    /// Returns the address of the data at a position. At least `size` bytes follow it.
    fn at(&self, position: u64) -> *mut u8 {
        let offset = (position & (self.size - 1)) as usize;
        // SAFETY: the offset is less than the size, and the data is mapped twice in a row.
        unsafe { self.base.add(self.page + offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let (start, length) = self.range();
        // SAFETY: the range was mapped by `new`, and its address is not used elsewhere.
        unsafe { sys::munmap(start as *mut c_void, length) };
    }
}
