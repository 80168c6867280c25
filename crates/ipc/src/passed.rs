//! Descriptors that the other side of a connection passed.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::net::sockopt;

/// Someone who closes descriptors that others passed.
///
/// Closing may wait for the sender: for data that a socket has not sent, or for the server of a
/// file system. So a thread that has other things to do leaves it to another one.
pub trait Disposal: fmt::Debug + Send + Sync {
    /// A descriptor has arrived.
    fn arrived(&self) {}

    /// It is needed, and is its new owner's to close.
    fn taken(&self) {}

    /// It is not needed.
    fn close(&self, fd: OwnedFd);
}

/// Closes descriptors on the thread that drops them, without waiting for data that sockets have not
/// sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct CloseHere;

impl Disposal for CloseHere {
    fn close(&self, fd: OwnedFd) {
        // Nothing else can linger, and the sender could have done this itself.
        let _ = sockopt::set_socket_linger(&fd, None);
    }
}

/// A descriptor that the other side of a connection passed. Dropping it leaves it to the
/// connection's [`Disposal`].
#[derive(Debug)]
pub struct PassedFd {
    /// There until it is taken or dropped.
    fd: Option<OwnedFd>,
    disposal: Option<Arc<dyn Disposal>>,
}

impl PassedFd {
    /// A descriptor that has just arrived.
    pub fn new(fd: OwnedFd, disposal: Option<Arc<dyn Disposal>>) -> Self {
        if let Some(disposal) = &disposal {
            disposal.arrived();
        }
        Self {
            fd: Some(fd),
            disposal,
        }
    }

    /// Returns the descriptor itself. Its kind should be known by now, or the thread be one that
    /// may wait.
    ///
    /// # Panics
    ///
    /// Never: it is there until this is called.
    pub fn into_fd(mut self) -> OwnedFd {
        if let Some(disposal) = &self.disposal {
            disposal.taken();
        }
        self.fd.take().expect("taken only here")
    }
}

impl From<OwnedFd> for PassedFd {
    /// One that is closed where it is dropped.
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
