//! Waking a poll loop from another thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};

/// A descriptor that another thread can make readable, for example for a
/// [link](super::transport::Link) without a descriptor of its own.
#[derive(Debug)]
pub struct WakeFd {
    fd: OwnedFd,
    /// Set if the descriptor is or will soon be readable, so no system call is needed.
    is_awake: AtomicBool,
}

impl WakeFd {
    /// Creates a descriptor that is not readable.
    ///
    /// # Errors
    ///
    /// Fails if the process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            fd: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            is_awake: AtomicBool::new(false),
        })
    }

    /// Makes the descriptor readable. Cheap if it is already.
    pub fn wake(&self) {
        if !self.is_awake.swap(true, Ordering::AcqRel) {
            // This fails only if the counter is full, and then the descriptor is readable.
            let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
        }
    }

    /// Makes the descriptor unreadable until the next wake. The effects of earlier wakers are
    /// visible to this thread afterwards.
    pub fn clear(&self) {
        // The flag is reset last, so that a wake in between counts as cleared.
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
        self.is_awake.swap(false, Ordering::AcqRel);
    }
}

impl AsFd for WakeFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
