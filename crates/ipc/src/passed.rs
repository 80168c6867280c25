//! Descriptors that a peer passed.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::net::sockopt;

/// A way to close descriptors that a peer passed.
///
/// Closing can block: on data that a socket has not sent, or on the server of a file system. A
/// thread with other work leaves it to another one.
pub trait Disposal: fmt::Debug + Send + Sync {
    /// Called when a descriptor has arrived.
    fn arrived(&self) {}

    /// Called when a descriptor is taken by an owner, which closes it.
    fn taken(&self) {}

    /// Called with a descriptor to close.
    fn close(&self, fd: OwnedFd);
}

/// Closes descriptors on the thread that drops them, without waiting for unsent data of sockets.
#[derive(Clone, Copy, Debug, Default)]
pub struct CloseHere;

impl Disposal for CloseHere {
    fn close(&self, fd: OwnedFd) {
        // No other kind of close blocks unless the sender could do the same otherwise.
        let _ = sockopt::set_socket_linger(&fd, None);
    }
}

/// A descriptor that a peer passed. If it is dropped, the connection's [`Disposal`] closes it.
#[derive(Debug)]
pub struct PassedFd {
    /// The descriptor, until it is taken or dropped.
    fd: Option<OwnedFd>,
    disposal: Option<Arc<dyn Disposal>>,
}

impl PassedFd {
    /// Wraps a descriptor that has just arrived.
    pub fn new(fd: OwnedFd, disposal: Option<Arc<dyn Disposal>>) -> Self {
        if let Some(disposal) = &disposal {
            disposal.arrived();
        }
        Self {
            fd: Some(fd),
            disposal,
        }
    }

    /// Returns the descriptor. The caller should have checked its kind, or be on a thread that may
    /// block.
    ///
    /// # Panics
    ///
    /// Never panics: the descriptor is present until this call.
    pub fn into_fd(mut self) -> OwnedFd {
        if let Some(disposal) = &self.disposal {
            disposal.taken();
        }
        self.fd.take().expect("taken only here")
    }
}

impl From<OwnedFd> for PassedFd {
    /// Wraps a descriptor that is closed where it is dropped.
    fn from(fd: OwnedFd) -> Self {
        Self::new(fd, None)
    }
}

impl AsFd for PassedFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_ref().expect("taken only at the end").as_fd()
    }
}

impl Drop for PassedFd {
    fn drop(&mut self) {
        if let (Some(fd), Some(disposal)) = (self.fd.take(), &self.disposal) {
            disposal.close(fd);
        }
    }
}
