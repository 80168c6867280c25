//! The local address of a socket.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use rustix::net::{SocketAddrUnix, getsockname};

use super::vsock::vsock_address;
use crate::address::Address;

/// Returns the address of this end; `None` if it has none, or one of an unsupported kind.
pub(super) fn local_address(socket: BorrowedFd<'_>) -> Option<Address> {
    if let Some((cid, port)) = vsock_address(socket) {
        return Some(Address::Vsock { cid, port });
    }
    let address = getsockname(socket).ok()?;
    if let Ok(address) = SocketAddr::try_from(address.clone()) {
        return Some(Address::Tcp {
            host: address.ip().to_string(),
            port: address.port(),
        });
    }
    let unix = SocketAddrUnix::try_from(address).ok()?;
    if let Some(name) = unix.abstract_name() {
        return Some(Address::Abstract(name.to_vec()));
    }
    let path = std::ffi::OsStr::from_bytes(unix.path()?.to_bytes()).to_owned();
    Some(Address::Path(PathBuf::from(path)))
}
