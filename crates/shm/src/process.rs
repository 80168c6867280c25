//! The id of this process, without a system call for each query.

#[cfg(not(any(loom, miri, tsan)))]
pub(crate) use wiped::process_id;

/// Returns the process id from a system call: the thread sanitizer does not see how the standard
/// library initialises a value once.
#[cfg(any(loom, miri, tsan))]
pub(crate) fn process_id() -> u32 {
    std::process::id()
}

#[cfg(not(any(loom, miri, tsan)))]
mod wiped {
    use std::ptr::{self, NonNull};
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    use rustix::mm::{self, Advice, MapFlags, ProtFlags};

    /// The size of the mapping: the smallest possible.
    const SIZE: usize = 4096;

    /// A page that the kernel clears in the child of a fork, with the process id in it.
    struct Page(NonNull<AtomicU32>);

    // SAFETY: the page is never unmapped, belongs to no thread, and is only accessed through an
    // atomic.
    unsafe impl Send for Page {}
    // SAFETY: as above.
    unsafe impl Sync for Page {}

    impl Page {
        /// Returns `None` if the kernel (before Linux 4.14) does not support it.
        fn new() -> Option<Self> {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing that
            // Rust knows of.
            let page = unsafe {
                mm::mmap_anonymous(ptr::null_mut(), SIZE, access, MapFlags::PRIVATE).ok()?
            };
            // SAFETY: exactly the mapping just made, of which nothing is in use yet.
            let wiped = unsafe { mm::madvise(page, SIZE, Advice::LinuxWipeOnFork) };
            if wiped.is_err() {
                // SAFETY: as above.
                let _ = unsafe { mm::munmap(page, SIZE) };
                return None;
            }
            Some(Self(NonNull::new(page.cast())?))
        }

        fn word(&self) -> &AtomicU32 {
            // SAFETY: aligned and large enough, being the start of a page; mapped for ever; only
            // accessed here.
            unsafe { AtomicU32::from_ptr(self.0.as_ptr().cast()) }
        }
    }

    /// Returns the process id from a page that is empty after a fork.
    pub(crate) fn process_id() -> u32 {
        static PAGE: OnceLock<Option<Page>> = OnceLock::new();
        let Some(page) = PAGE.get_or_init(Page::new) else {
            return std::process::id();
        };
        match page.word().load(Ordering::Relaxed) {
            0 => {
                let id = std::process::id();
                page.word().store(id, Ordering::Relaxed);
                id
            }
            id => id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::process_id;

    #[test]
    fn the_process_id_is_that_of_the_system() {
        assert_eq!(process_id(), std::process::id());
        assert_eq!(process_id(), std::process::id());
    }

    #[cfg(not(any(loom, miri, tsan)))]
    #[test]
    fn a_forked_child_has_another_process_id() {
        unsafe extern "C" {
            fn fork() -> i32;
            fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
            fn _exit(status: i32) -> !;
        }
        let parent = process_id();
        // SAFETY: the child does nothing but ask for its number and end.
        let child = unsafe { fork() };
        if child == 0 {
            let differs = process_id() != parent && process_id() == std::process::id();
            // SAFETY: ends the process without running anything of the parent's.
            unsafe { _exit(i32::from(!differs)) };
        }
        let mut status = -1;
        // SAFETY: `status` is valid for writing.
        assert_eq!(unsafe { waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "the child's word");
    }
}
