//! Replaces vsock if that feature is off.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

fn unsupported() -> io::Error {
    let reason = "vsock sockets are not supported by this build";
    io::Error::new(io::ErrorKind::Unsupported, reason)
}

pub(super) fn connect_vsock(_: u32, _: u32) -> io::Result<OwnedFd> {
    Err(unsupported())
}

pub(super) fn bind_vsock(_: u32, _: u32) -> io::Result<OwnedFd> {
    Err(unsupported())
}

pub(super) fn vsock_address(_: BorrowedFd<'_>) -> Option<(u32, u32)> {
    None
}

pub(super) fn vsock_peer(_socket: BorrowedFd<'_>) -> Option<u32> {
    None
}
