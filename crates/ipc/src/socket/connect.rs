//! Connects to an address.

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

/// The timeout of a TCP connection attempt.
const TCP_TIMEOUT: Duration = Duration::from_secs(10);

/// The error of a failed connection attempt.
#[derive(Debug)]
pub struct ConnectError {
    /// The address to connect to.
    pub address: Address,
    /// The reason.
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
    /// A connection to a UNIX socket never blocks: a full backlog is an error. A TCP connection
    /// takes at most ten seconds, a vsock connection at most two.
    ///
    /// A connection to another machine is encrypted as [configured](super::process_security) for
    /// the process.
    ///
    /// # Errors
    ///
    /// See [`ConnectError`]. Without the feature `vsock`, vsock addresses are not supported.
    pub fn connect(address: &Address) -> Result<Self, ConnectError> {
        let failed = |source| ConnectError {
            address: address.clone(),
            source,
        };
        let security = if address.is_unix() {
            None
        } else {
            super::process_security().map_err(failed)?
        };
        Self::connect_with(address, security.as_deref())
    }

    /// Like [`connect`](Self::connect), but with this encryption for a connection to another
    /// machine.
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

/// Returns the kernel's form of a UNIX address.
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
