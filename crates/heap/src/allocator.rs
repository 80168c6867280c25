//! The allocator for Rust programs.

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::c_void;
use core::ptr;

use crate::client;
use crate::sys;

/// The C library's `malloc` with a client of the heap profiler, for statically linked programs. For
/// other programs, the preload library records all code of the process. If a process has both, give
/// only one of them the profiler's socket.
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: ferretto_heap::Allocator = ferretto_heap::Allocator::new();
///
/// let text = String::from("recorded during a recording");
/// # assert_eq!(text.len(), 27);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Allocator;

/// The alignment that `malloc` guarantees.
const ALIGNMENT: usize = 16;

impl Allocator {
    /// Returns the allocator.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

#[inline(always)]
fn note(address: *mut c_void, size: usize) -> *mut u8 {
    if !client::is_prepared() {
        client::prepare_from_environment();
    }
    if !address.is_null() && !client::passes(size) {
        client::allocated(address, size);
    }
    address.cast()
}

// SAFETY: all memory comes from C library calls that respect the layout. The client never
// dereferences the addresses.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let size = layout.size();
        if layout.align() <= ALIGNMENT && layout.align() <= size {
            // SAFETY: `malloc` accepts any size.
            return note(unsafe { sys::malloc(size) }, size);
        }
        let mut address = ptr::null_mut();
        let alignment = layout.align().max(size_of::<usize>());
        // SAFETY: the alignment is a power of two, and as large as a pointer.
        let failed = unsafe { sys::posix_memalign(&mut address, alignment, size) } != 0;
        if failed {
            return ptr::null_mut();
        }
        note(address, size)
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGNMENT && layout.align() <= layout.size() {
            // SAFETY: `calloc` accepts any sizes.
            return note(unsafe { sys::calloc(layout.size(), 1) }, layout.size());
        }
        // SAFETY: the caller guarantees a valid layout.
        let address = unsafe { self.alloc(layout) };
        if !address.is_null() {
            // SAFETY: the allocation has that many bytes.
            unsafe { ptr::write_bytes(address, 0, layout.size()) };
        }
        address
    }

    #[inline]
    unsafe fn dealloc(&self, address: *mut u8, _: Layout) {
        client::freeing(address.cast());
        // SAFETY: the caller guarantees that this allocator allocated it.
        unsafe { sys::free(address.cast()) };
    }

    #[inline]
    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() > ALIGNMENT || layout.align() > size {
            // SAFETY: the caller guarantees that the size is not 0 and does not overflow when
            // rounded up to the alignment.
            unsafe {
                let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
                if !new.is_null() {
                    ptr::copy_nonoverlapping(old, new, size.min(layout.size()));
                    self.dealloc(old, layout);
                }
                return new;
            }
        }
        let taken = client::moving(old.cast());
        // SAFETY: the caller guarantees that this allocator allocated it.
        let new = unsafe { sys::realloc(old.cast(), size) };
        if let Some(taken) = taken {
            client::moved(taken, !new.is_null());
        }
        note(new, size)
    }
}
