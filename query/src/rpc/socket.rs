//! The stream of `/rpc` on a Unix socket, which its owner alone may connect to.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::state::Processor;
use super::stream::answer;
use crate::engine::STACK;

/// A server on a Unix socket. The socket goes with it.
#[derive(Debug)]
pub struct SocketServer {
    listener: UnixListener,
    path: PathBuf,
}

impl SocketServer {
    /// Listens. A socket that nobody answers on is replaced.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let taken = |why| io::Error::new(io::ErrorKind::AddrInUse, why);
        if let Ok(there) = path.symlink_metadata() {
            if !there.file_type().is_socket() {
                return Err(taken("it is there already, and no socket"));
            }
            if UnixStream::connect(path).is_ok() {
                return Err(taken("somebody answers there already"));
            }
        }
        let parent = path.parent().filter(|parent| *parent != Path::new(""));
        // Nobody else may connect, not even before the permissions are right.
        let private = tempfile::Builder::new()
            .prefix(".")
            .tempdir_in(parent.unwrap_or(Path::new(".")))?;
        let draft = private.path().join("s");
        let listener = UnixListener::bind(&draft)?;
        std::fs::set_permissions(&draft, Permissions::from_mode(0o600))?;
        std::fs::rename(&draft, path)?;
        let path = path.to_owned();
        Ok(Self { listener, path })
    }

    /// Serves each client in a thread of its own, until the process ends.
    pub fn run(&self, processor: Processor) -> io::Result<()> {
        let listener = self.listener.try_clone()?;
        let processor = Arc::new(Mutex::new(processor));
        let accept = move || {
            for client in listener.incoming().flatten() {
                let processor = processor.clone();
                let thread = std::thread::Builder::new().stack_size(STACK);
                // A client gets no answer if there is no thread for it, or if it goes away.
                let _ = thread.spawn(move || answer(&mut &client, &mut &client, &processor));
            }
        };
        std::thread::Builder::new().spawn(accept)?;
        Ok(())
    }
}

impl Drop for SocketServer {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = std::fs::remove_file(&self.path);
    }
}
