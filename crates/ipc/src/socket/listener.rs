//! Listens at an address without replacing the socket of a running service.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{SocketFlags, SocketType};

use super::Socket;
use super::connect::{connect_unix, unix_address, unix_socket};
use super::local::local_address;
use super::vsock::bind_vsock;
use crate::address::Address;

/// The backlog: the largest that the system allows.
const BACKLOG: i32 = 4096;
/// The number of attempts to lock a folder, and the interval.
const LOCK_ATTEMPTS: u32 = 100;
const LOCK_INTERVAL: Duration = Duration::from_millis(10);

/// The reason why listening at an address failed.
#[derive(Debug)]
pub enum BindError {
    /// A service answers at this address. Its socket was left alone.
    InUse {
        /// The address.
        address: Address,
    },
    /// The path exists and is not a socket. It was left alone.
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// Preparing the socket for its clients failed. The socket was removed.
    Prepare {
        /// The address.
        address: Address,
        /// The reason.
        source: io::Error,
    },
    /// The system refused.
    Io {
        /// The address.
        address: Address,
        /// The reason.
        source: io::Error,
    },
}

ferretto_wire::error_text! {
    BindError {
        Self::InUse { address } =>
            "{address} is in use by a running service; stop it or choose another socket name",
        Self::NotASocket { path } =>
            "{} exists and is not a socket; remove it or choose another socket name" (path.display()),
        Self::Prepare { address, source } => "cannot prepare {address}: {source}",
        Self::Io { address, source } => "cannot listen at {address}: {source}",
    }
    source {
        Self::Prepare { source, .. } => source,
        Self::Io { source, .. } => source,
    }
}

/// A listening, non-blocking socket.
///
/// Its socket file is removed when the listener is dropped, unless another service has replaced the
/// file.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    address: Address,
    /// The path, device and inode of the socket file.
    file: Option<(PathBuf, u64, u64)>,
}

impl Listener {
    /// Binds and listens.
    ///
    /// The socket file of a service that no longer runs is replaced; one that still answers is left
    /// alone.
    ///
    /// # Errors
    ///
    /// See [`BindError`]. Without the feature `vsock`, vsock addresses are not supported.
    pub fn bind(address: &Address) -> Result<Self, BindError> {
        Self::bind_prepared(address, || Ok(()))
    }

    /// Like [`bind`](Self::bind), but calls `prepare` when the socket exists and clients cannot
    /// connect yet, which is the time to set its permissions.
    ///
    /// # Errors
    ///
    /// See [`BindError`].
    pub fn bind_prepared(
        address: &Address,
        prepare: impl FnOnce() -> io::Result<()>,
    ) -> Result<Self, BindError> {
        let io_error = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse if !matches!(address, Address::Tcp { .. }) => {
                let address = address.clone();
                BindError::InUse { address }
            }
            _ => BindError::Io {
                address: address.clone(),
                source,
            },
        };
        if !address.is_unix() {
            // Checked first: clients must not find a socket without the requested encryption.
            super::process_security().map_err(io_error)?;
        }
        let (fd, _lock) = match address {
            Address::Path(path) => {
                let lock = lock_folder(path);
                clear_stale(path, address)?;
                (bind_unix(address).map_err(io_error)?, lock)
            }
            Address::Abstract(_) => (bind_unix(address).map_err(io_error)?, None),
            Address::Tcp { host, port } => (bind_tcp(host, *port).map_err(io_error)?, None),
            Address::Vsock { cid, port } => (bind_vsock(*cid, *port).map_err(io_error)?, None),
        };
        let file = match address {
            Address::Path(path) => rustix::fs::lstat(path)
                .ok()
                .map(|status| (path.clone(), status.st_dev, status.st_ino)),
            _ => None,
        };
        // Removes the file if a later step fails.
        let listener = Self {
            fd,
            address: address.clone(),
            file,
        };
        prepare().map_err(|source| BindError::Prepare {
            address: address.clone(),
            source,
        })?;
        rustix::net::listen(&listener.fd, BACKLOG).map_err(|errno| io_error(errno.into()))?;
        Ok(listener)
    }

    /// Listens on a stream socket that the parent process has bound. Its file, if there is one, is
    /// not removed.
    ///
    /// # Errors
    ///
    /// Fails if the descriptor is not such a socket.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        let Some(address) = local_address(fd.as_fd()) else {
            let reason = "it is not bound to an address of a known kind";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        };
        if rustix::net::sockopt::socket_type(&fd)? != SocketType::STREAM {
            let reason = "it is not a stream socket";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        rustix::net::listen(&fd, BACKLOG)?;
        rustix::io::ioctl_fionbio(&fd, true)?;
        rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
        Ok(Self {
            fd,
            address,
            file: None,
        })
    }

    /// Returns the address of the listener.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the TCP port, which the system chose if the address has port 0.
    pub fn local_port(&self) -> Option<u16> {
        let address = rustix::net::getsockname(&self.fd).ok()?;
        Some(std::net::SocketAddr::try_from(address).ok()?.port())
    }

    /// Accepts the next connection; `None` if there is none.
    ///
    /// A connection that its peer has already closed is skipped.
    ///
    /// # Errors
    ///
    /// Fails if the process or the system is out of descriptors or memory. The connection then
    /// stays in the backlog.
    pub fn accept(&self) -> io::Result<Option<Socket>> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        loop {
            match rustix::net::accept_with(&self.fd, flags) {
                Ok(fd) => return Socket::from_fd(fd).map(Some),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl Listener {
    /// Removes the socket file, unless another service has replaced it. New clients cannot connect
    /// then.
    pub fn remove_file(&mut self) {
        if let Some((path, device, inode)) = self.file.take()
            && rustix::fs::lstat(&path)
                .is_ok_and(|status| (status.st_dev, status.st_ino) == (device, inode))
        {
            // An error has no consequence: the next service replaces the stale file.
            let _ = rustix::fs::unlink(&path);
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.remove_file();
    }
}

/// Keeps other services from starting in the same folder: between bind and listen, a socket looks
/// stale.
///
/// Everyone who may read the folder can hold the lock, so that starting does not depend on it.
fn lock_folder(path: &Path) -> Option<OwnedFd> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(folder.unwrap_or(Path::new(".")), flags, Mode::empty()).ok()?;
    for _ in 0..LOCK_ATTEMPTS {
        match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Some(folder),
            Err(Errno::AGAIN | Errno::INTR) => std::thread::sleep(LOCK_INTERVAL),
            Err(_) => return None,
        }
    }
    None
}

/// Removes a stale socket file, but not one in use.
fn clear_stale(path: &Path, address: &Address) -> Result<(), BindError> {
    let io_error = |source: io::Error| BindError::Io {
        address: address.clone(),
        source,
    };
    // This also detects a path that is too long before any change.
    unix_address(address).map_err(io_error)?;
    match rustix::fs::lstat(path) {
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(io_error(errno.into())),
        Ok(status) if FileType::from_raw_mode(status.st_mode) != FileType::Socket => {
            return Err(BindError::NotASocket {
                path: path.to_owned(),
            });
        }
        Ok(_) => {}
    }
    match connect_unix(address) {
        // A full backlog also means that the service is running.
        Ok(_) => Err(BindError::InUse {
            address: address.clone(),
        }),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(BindError::InUse {
            address: address.clone(),
        }),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            match rustix::fs::unlink(path) {
                Ok(()) | Err(Errno::NOENT) => Ok(()),
                Err(errno) => Err(io_error(errno.into())),
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(io_error(error)),
    }
}

/// Binds without listening.
fn bind_unix(address: &Address) -> io::Result<OwnedFd> {
    let socket = unix_socket()?;
    rustix::net::bind(&socket, &unix_address(address)?)?;
    Ok(socket)
}

/// Binds. The standard library sets `SO_REUSEADDR`, as upstream does.
fn bind_tcp(host: &str, port: u16) -> io::Result<OwnedFd> {
    let listener = TcpListener::bind((host, port))?;
    listener.set_nonblocking(true)?;
    Ok(listener.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::MetadataExt as _;

    fn at(path: &Path) -> Address {
        Address::Path(path.to_owned())
    }

    #[test]
    fn a_socket_file_appears_and_disappears_with_its_listener() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sock");
        let listener = Listener::bind(&at(&path)).unwrap();
        assert!(listener.accept().unwrap().is_none());
        let _client = Socket::connect(&at(&path)).unwrap();
        let server = listener.accept().unwrap().unwrap();
        let credentials = server.credentials().unwrap();
        assert_eq!(credentials.pid.cast_unsigned(), std::process::id());
        let owner = std::fs::metadata(&path).unwrap().uid();
        assert_eq!(credentials.uid, owner);
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn no_client_connects_before_the_preparation_and_a_failure_removes_the_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sock");
        let refused = || {
            let error = Socket::connect(&at(&path)).unwrap_err().source;
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        };
        let listener = Listener::bind_prepared(&at(&path), || {
            refused();
            Ok(())
        });
        assert!(Socket::connect(&at(&path)).is_ok());
        drop(listener.unwrap());
        let error = Listener::bind_prepared(&at(&path), || Err(Errno::PERM.into())).unwrap_err();
        assert!(matches!(error, BindError::Prepare { .. }), "{error}");
        assert!(!path.exists());
    }

    #[test]
    fn a_live_socket_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sock");
        let _live = Listener::bind(&at(&path)).unwrap();
        assert!(matches!(
            Listener::bind(&at(&path)),
            Err(BindError::InUse { .. })
        ));
        assert!(Socket::connect(&at(&path)).is_ok());
    }

    #[test]
    fn a_stale_socket_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sock");
        // A standard listener leaves its file behind.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let _listener = Listener::bind(&at(&path)).unwrap();
        assert!(Socket::connect(&at(&path)).is_ok());
    }

    #[test]
    fn one_of_many_concurrently_starting_services_gets_the_address() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let address = at(&path);
                std::thread::spawn(move || Listener::bind(&address))
            })
            .collect();
        let results: Vec<_> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect();
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
        assert!(Socket::connect(&at(&path)).is_ok());
    }

    #[test]
    fn a_file_that_is_not_a_socket_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("precious");
        std::fs::write(&path, "data").unwrap();
        assert!(matches!(
            Listener::bind(&at(&path)),
            Err(BindError::NotASocket { .. })
        ));
        assert_eq!(std::fs::read(&path).unwrap(), b"data");
    }

    #[test]
    fn a_replaced_socket_file_is_not_removed_by_its_former_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sock");
        let old = Listener::bind(&at(&path)).unwrap();
        std::fs::remove_file(&path).unwrap();
        let _new = Listener::bind(&at(&path)).unwrap();
        drop(old);
        assert!(path.exists());
    }

    #[test]
    fn ipc_025_a_path_of_106_bytes_works_and_107_is_too_long() {
        let folder = tempfile::tempdir().unwrap();
        let used = folder.path().as_os_str().as_bytes().len() + 1;
        let path = folder.path().join("x".repeat(106 - used));
        let listener = Listener::bind(&at(&path)).unwrap();
        assert!(Socket::connect(listener.address()).is_ok());
        let long = at(&folder.path().join("x".repeat(107 - used)));
        let Err(BindError::Io { source, .. }) = Listener::bind(&long) else {
            panic!("bound")
        };
        assert_eq!(Errno::from_io_error(&source), Some(Errno::NAMETOOLONG));
        let error = Socket::connect(&long).unwrap_err();
        assert_eq!(
            Errno::from_io_error(&error.source),
            Some(Errno::NAMETOOLONG)
        );
    }

    #[test]
    fn ipc_025_abstract_names_carry_no_trailing_nul() {
        let name = format!("ferretto-test-{}", std::process::id());
        let address = Address::Abstract(name.clone().into_bytes());
        let listener = Listener::bind(&address).unwrap();
        assert!(matches!(
            Listener::bind(&address),
            Err(BindError::InUse { .. })
        ));
        assert!(Socket::connect(&address).is_ok());
        let bound = std::os::unix::net::UnixListener::from(listener.fd.try_clone().unwrap());
        let bound = bound.local_addr().unwrap();
        use std::os::linux::net::SocketAddrExt as _;
        assert_eq!(bound.as_abstract_name(), Some(name.as_bytes()));
    }

    #[test]
    fn tcp_connections_have_no_credentials() {
        let address: Address = "127.0.0.1:0".parse().unwrap();
        let listener = Listener::bind(&address).unwrap();
        let port = listener.local_port().unwrap();
        let client = Socket::connect(&Address::Tcp {
            host: "127.0.0.1".into(),
            port,
        })
        .unwrap();
        assert_eq!(client.credentials(), None);
        assert_eq!(client.local_host(), "127.0.0.1");
    }
}
