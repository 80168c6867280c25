//! Sockets between a virtual machine and its host, see vsock(7).

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, VsockAddr, bind, connect, getpeername, getsockname, socket,
};

fn new_socket() -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC;
    Ok(socket(AddressFamily::Vsock, SockType::Stream, flags, None)?)
}

/// Connects. The kernel's timeout is two seconds.
pub(super) fn connect_vsock(cid: u32, port: u32) -> io::Result<OwnedFd> {
    let socket = new_socket()?;
    loop {
        match connect(socket.as_raw_fd(), &VsockAddr::new(cid, port)) {
            Ok(()) => return Ok(socket),
            Err(nix::Error::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Binds a non-blocking socket without listening.
pub(super) fn bind_vsock(cid: u32, port: u32) -> io::Result<OwnedFd> {
    let socket = new_socket()?;
    bind(socket.as_raw_fd(), &VsockAddr::new(cid, port))?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    Ok(socket)
}

/// Returns the context and the port of this end; `None` for another kind of socket.
pub(super) fn vsock_address(socket: BorrowedFd<'_>) -> Option<(u32, u32)> {
    let address: VsockAddr = getsockname(socket.as_raw_fd()).ok()?;
    Some((address.cid(), address.port()))
}

/// Returns the context of the other end; `None` for another kind of socket.
pub(super) fn vsock_peer(socket: BorrowedFd<'_>) -> Option<u32> {
    let address: VsockAddr = getpeername(socket.as_raw_fd()).ok()?;
    Some(address.cid())
}
