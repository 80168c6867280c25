//! The stream of `/rpc` on a Unix socket to which only its owner may connect.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::state::Processor;
use super::stream::serve_stream;
use crate::engine::STACK;

/// A server on a Unix socket. Dropping it removes the socket.
#[derive(Debug)]
pub struct SocketServer {
    listener: UnixListener,
    path: PathBuf,
}

impl SocketServer {
    /// Creates a server that listens. Replaces a socket without a server.
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
            .tempdir_in(parent.unwrap_or(Path::new(".")))?;
        let temporary = private.path().join("s");
        let listener = UnixListener::bind(&temporary)?;
        std::fs::set_permissions(&temporary, Permissions::from_mode(0o600))?;
        std::fs::rename(&temporary, path)?;
        let path = path.to_owned();
        Ok(Self { listener, path })
    }

    /// Serves each client in its own thread, until the process ends.
    pub fn run(&self, processor: Processor) -> io::Result<()> {
        let listener = self.listener.try_clone()?;
        let processor = Arc::new(Mutex::new(processor));
        let accept = move || {
            for client in listener.incoming().flatten() {
                let processor = processor.clone();
                let thread = std::thread::Builder::new().stack_size(STACK);
                // Without a thread, and after a disconnect, there is no reply.
                let _ = thread.spawn(move || serve_stream(&mut &client, &mut &client, &processor));
            }
        };
        std::thread::Builder::new().spawn(accept)?;
        Ok(())
    }
}

impl Drop for SocketServer {
    fn drop(&mut self) {
        // The socket may have been removed already.
        let _ = std::fs::remove_file(&self.path);
    }
}
