//! Waking a poll loop from another thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};

/// A descriptor that becomes readable when someone wants attention. For
/// [links](super::transport::Link) that have no descriptor of their own, among others.
#[derive(Debug)]
pub struct WakeFd {
    fd: OwnedFd,
    /// It is readable, or about to be: there is no need for another system call.
    is_awake: AtomicBool,
}

impl WakeFd {
    /// One that is not readable.
    ///
    /// # Errors
    ///
    /// If the process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            fd: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            is_awake: AtomicBool::new(false),
        })
    }

    /// Makes the descriptor readable. Cheap if it is.
    pub fn wake(&self) {
        if !self.is_awake.swap(true, Ordering::AcqRel) {
            // Fails only if the counter is full, and then it is readable anyway.
            let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
        }
    }

    /// Makes it unreadable until the next wake. Afterwards this thread sees all that others did
    /// before they woke it.
    pub fn clear(&self) {
        // In this order: a wake in between is one of those that are cleared here.
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
        self.is_awake.swap(false, Ordering::AcqRel);
    }
}

impl AsFd for WakeFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
