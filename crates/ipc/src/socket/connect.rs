//! Connecting to an address.

use std::io;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::vsock::connect_vsock;
use super::{Security, Socket};
use crate::address::{Address, MAX_SOCKET_PATH};

/// The time that a TCP connection may take to come about.
const TCP_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection could not be made.
#[derive(Debug)]
pub struct ConnectError {
    /// The address to connect to.
    pub address: Address,
    /// Why not.
    pub source: io::Error,
}

ferretto_wire::error_text! {
    ConnectError {
        Self { address, source } => "cannot connect to {address}: {source}",
    }
    source {
        Self { source, .. } => source,
    }
}

impl Socket {
    /// Connects to a service.
    ///
    /// Connecting to a UNIX socket does not block: a full backlog is an error.
    /// A TCP connection is waited for, for at most ten seconds, a vsock
    /// connection for at most two.
    ///
    /// One to another machine is secured as all of this [process](super::process_security).
    ///
    /// # Errors
    ///
    /// See [`ConnectError`]. Without the feature `vsock`, those addresses are
    /// not supported.
    pub fn connect(address: &Address) -> Result<Self, ConnectError> {
        let failed = |source| ConnectError {
            address: address.clone(),
            source,
        };
        let security = match address.is_unix() {
            true => None,
            false => super::process_security().map_err(failed)?,
        };
        Self::connect_with(address, security.as_deref())
    }

    /// Like [`connect`](Self::connect), secured like this if it is to another machine.
    ///
    /// # Errors
    ///
    /// See [`ConnectError`].
    pub fn connect_with(
        address: &Address,
        security: Option<&dyn Security>,
    ) -> Result<Self, ConnectError> {
        let connected = match address {
            Address::Path(_) | Address::Abstract(_) => connect_unix(address),
            Address::Tcp { host, port } => connect_tcp(host, *port),
            Address::Vsock { cid, port } => connect_vsock(*cid, *port),
        };
        let secured = connected.and_then(Self::from_fd).and_then(|mut socket| {
            if let Some(security) = security.filter(|_| !socket.is_unix()) {
                socket.put_on(security.connecting(address)?);
            }
            Ok(socket)
        });
        secured.map_err(|source| ConnectError {
            address: address.clone(),
            source,
        })
    }
}

/// The kernel's form of a UNIX address.
pub(super) fn unix_address(address: &Address) -> io::Result<SocketAddrUnix> {
    match address {
        Address::Path(path) if path.as_os_str().as_bytes().len() > MAX_SOCKET_PATH => {
            Err(Errno::NAMETOOLONG.into())
        }
        Address::Path(path) => Ok(SocketAddrUnix::new(path)?),
        Address::Abstract(name) => Ok(SocketAddrUnix::new_abstract_name(name)?),
        _ => Err(Errno::AFNOSUPPORT.into()),
    }
}

pub(super) fn unix_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        flags,
        None,
    )?)
}

pub(super) fn connect_unix(address: &Address) -> io::Result<OwnedFd> {
    let target = unix_address(address)?;
    let socket = unix_socket()?;
    loop {
        match rustix::net::connect(&socket, &target) {
            Ok(()) => return Ok(socket),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn connect_tcp(host: &str, port: u16) -> io::Result<OwnedFd> {
    let mut error = io::Error::from(io::ErrorKind::NotFound);
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, TCP_TIMEOUT) {
            Ok(stream) => return Ok(stream.into()),
            Err(failed) => error = failed,
        }
    }
    Err(error)
}
