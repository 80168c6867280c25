//! The control page: a file next to the profiler's socket that notifies clients of sessions.
//!
//! The profiler writes it, and all clients map it read-only. It outlives the profiler, so that the
//! next profiler reaches running programs.

use core::ffi::{CStr, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::sys;

/// The default path of the profiler's socket. The page's path is the socket's with [`SUFFIX`]
/// appended.
pub const DEFAULT_SOCKET: &str = "/run/perfetto/heapprofd.sock";
/// The suffix of the page's path.
pub const SUFFIX: &str = ".page";
/// The size of the page's file, on all systems.
pub const PAGE: usize = 4096;
/// Longest path of a socket.
pub const MAX_PATH: usize = 107;

const MAGIC: u64 = u64::from_le_bytes(*b"FERRHEAP");

/// The contents of the page.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Page {
    magic: AtomicU64,
    /// Incremented by each new session.
    pub(crate) generation: AtomicU32,
    /// The number of sessions.
    pub(crate) active: AtomicU32,
}

impl Page {
    /// Returns a page without sessions.
    pub(crate) const fn idle() -> Self {
        Self {
            magic: AtomicU64::new(MAGIC),
            generation: AtomicU32::new(0),
            active: AtomicU32::new(0),
        }
    }

    /// Maps the page of a profiler read-only. Only a page owned by root or this user is trusted.
    pub(crate) fn open(path: &CStr) -> Option<&'static Self> {
        let flags = sys::O_RDONLY | sys::O_CLOEXEC | sys::O_NOFOLLOW;
        // SAFETY: the path ends with a 0.
        let fd = unsafe { sys::open(path.as_ptr(), flags, 0) };
        if fd < 0 {
            return None;
        }
        let mut stat = sys::Stat::default();
        // SAFETY: `stat` is large enough; the descriptor was just opened.
        let is_known = unsafe { sys::fstat(fd, &mut stat) == 0 };
        // SAFETY: always succeeds.
        let is_trusted = stat.uid == 0 || stat.uid == unsafe { sys::geteuid() };
        let is_file = stat.mode & 0o170_000 == 0o100_000 && stat.size >= PAGE as i64;
        let page = if is_known && is_trusted && is_file {
            map(fd, sys::PROT_READ)
        } else {
            None
        };
        sys::close_fd(fd);
        // SAFETY: the page stays mapped for the life of the process, and its fields are atomic.
        let page = unsafe { &*page?.cast::<Self>() };
        (page.magic.load(Ordering::Relaxed) == MAGIC).then_some(page)
    }
}

fn map(fd: c_int, access: c_int) -> Option<*mut c_void> {
    // SAFETY: a new mapping does not affect existing memory.
    let base = unsafe { sys::mmap(ptr::null_mut(), PAGE, access, sys::MAP_SHARED, fd, 0) };
    (base as isize != -1).then_some(base)
}

/// The profiler's side of the page.
#[cfg(feature = "profiler")]
#[derive(Debug)]
pub struct ControlPage {
    page: *mut Page,
}

// SAFETY: the mapping is valid in all threads, and its fields are atomic.
#[cfg(feature = "profiler")]
unsafe impl Send for ControlPage {}

#[cfg(feature = "profiler")]
impl ControlPage {
    /// Initializes a file of at least [`PAGE`] bytes that is open for reading and writing. Returns
    /// `None` if it cannot be mapped.
    #[must_use]
    pub fn new(file: &impl std::os::fd::AsRawFd) -> Option<Self> {
        let page = map(file.as_raw_fd(), sys::PROT_READ | sys::PROT_WRITE)?.cast::<Page>();
        let this = Self { page };
        this.page().active.store(0, Ordering::Relaxed);
        this.page().magic.store(MAGIC, Ordering::Release);
        Some(this)
    }

    /// Notifies all clients of a new session.
    pub fn call(&self, active: u32) {
        let page = self.page();
        page.active.store(active, Ordering::SeqCst);
        page.generation.fetch_add(1, Ordering::SeqCst);
    }

    /// Sets the number of sessions, which new programs read.
    pub fn set_active(&self, active: u32) {
        self.page().active.store(active, Ordering::SeqCst);
    }

    fn page(&self) -> &Page {
        // SAFETY: the page is mapped for as long as `self` lives, and its fields are atomic.
        unsafe { &*self.page }
    }
}

#[cfg(feature = "profiler")]
impl Drop for ControlPage {
    fn drop(&mut self) {
        self.set_active(0);
        // SAFETY: mapped by `new`, and the address is not used elsewhere.
        unsafe { sys::munmap(self.page.cast(), PAGE) };
    }
}
