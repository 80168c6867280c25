//! The mapped memory of a ring, which is the same on both sides.

use core::ffi::{c_int, c_void};
use core::ptr;

use super::{Metadata, PAGE};
use crate::sys;

/// A ring's memory: the metadata page, then the data twice in a row.
#[derive(Debug)]
pub struct Mapping {
    base: *mut u8,
    size: u64,
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
        let size = u64::try_from(stat.size).ok()?.checked_sub(PAGE as u64)?;
        if !size.is_power_of_two() || !(super::MIN_SIZE..=super::MAX_SIZE).contains(&size) {
            return None;
        }
        let data = size as usize;
        let whole = PAGE + 2 * data;
        let flags = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE;
        // SAFETY: a new mapping does not affect existing memory.
        let base = unsafe { sys::mmap(ptr::null_mut(), whole, sys::PROT_NONE, flags, -1, 0) };
        if base as isize == -1 {
            return None;
        }
        let mapping = Self {
            base: base.cast(),
            size,
        };
        let access = sys::PROT_READ | sys::PROT_WRITE;
        let flags = sys::MAP_SHARED | sys::MAP_FIXED;
        let parts = [(0, PAGE + data, 0), (PAGE + data, data, PAGE)];
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
        (self.base as usize, PAGE + 2 * self.size as usize)
    }

    pub(crate) fn metadata(&self) -> &Metadata {
        // SAFETY: the first page is mapped for as long as `self` lives. Its fields are atomic
        // integers, for which all bytes are valid.
        unsafe { &*self.base.cast::<Metadata>() }
    }

    /// Returns the address of the data at a position. At least `size` bytes follow it.
    pub(crate) fn at(&self, position: u64) -> *mut u8 {
        let offset = (position & (self.size - 1)) as usize;
        // SAFETY: the offset is less than the size, and the data is mapped twice in a row.
        unsafe { self.base.add(PAGE + offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let (start, length) = self.range();
        // SAFETY: the range was mapped by `new`, and its address is not used elsewhere.
        unsafe { sys::munmap(start as *mut c_void, length) };
    }
}
