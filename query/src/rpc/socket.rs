//! The stream of `/rpc` on a Unix socket to which only its owner may connect.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::http::{ProcessorSite, limits};
use super::state::Processor;
use super::turns::{PATIENCE, Turns};

/// A server on a Unix socket. Dropping it removes the socket.
#[derive(Debug)]
pub struct SocketServer {
    listener: UnixListener,
    path: PathBuf,
}

impl SocketServer {
    /// Creates a server that listens. Replaces a socket without a server.
    ///
    /// # Errors
    ///
    /// Fails if another server listens there, or if the socket cannot be created.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let taken = |why| io::Error::new(io::ErrorKind::AddrInUse, why);
        if let Ok(metadata) = path.symlink_metadata() {
            if !metadata.file_type().is_socket() {
                return Err(taken("the file exists and is not a socket"));
            }
            if UnixStream::connect(path).is_ok() {
                return Err(taken("another server listens there"));
            }
        }
        let parent = path.parent().filter(|parent| *parent != Path::new(""));
        // In a private folder, no other user can connect before the permissions are set.
        let private = tempfile::Builder::new()
            .prefix(".")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(parent.unwrap_or(Path::new(".")))?;
        let temporary = private.path().join("s");
        let listener = UnixListener::bind(&temporary)?;
        std::fs::set_permissions(&temporary, Permissions::from_mode(0o600))?;
        std::fs::rename(&temporary, path)?;
        let path = path.to_owned();
        Ok(Self { listener, path })
    }

    /// Serves clients until the result is dropped.
    ///
    /// # Errors
    ///
    /// Fails if no thread can be started.
    pub fn run(&self, processor: Processor) -> io::Result<RunningSocket> {
        let limits = limits(&processor);
        let site = ProcessorSite::new(processor, &limits, PATIENCE);
        let turns = site.turns();
        // No TCP connections arrive.
        let mut server = ferretto_http::Server::new(limits, Box::new(|_| false))?;
        server.listen_for_sessions(self.listener.try_clone()?)?;
        let _running = server.start("rpc", site)?;
        Ok(RunningSocket { _running, turns })
    }
}

/// A server that runs until this is dropped.
#[derive(Debug)]
pub struct RunningSocket {
    _running: ferretto_http::Running,
    turns: Arc<Turns>,
}

impl RunningSocket {
    /// Returns the time since the last request; zero during one.
    pub fn idle(&self) -> Duration {
        self.turns.idle()
    }
}

impl Drop for SocketServer {
    fn drop(&mut self) {
        // The socket may have been removed already.
        let _ = std::fs::remove_file(&self.path);
    }
}
