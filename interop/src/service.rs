//! A tracing service on private sockets.

use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Where one scenario's service listens: two sockets in a folder of its own,
/// which goes when this value does.
#[derive(Debug)]
pub struct Sockets {
    folder: TempDir,
}

impl Sockets {
    /// A fresh folder.
    ///
    /// # Panics
    ///
    /// When it cannot be made.
    #[must_use]
    pub fn new() -> Self {
        let folder = TempDir::with_prefix("ferretto-interop-").expect("a temporary folder");
        Self { folder }
    }

    /// The folder itself, for the scenario's other files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The producer socket.
    #[must_use]
    pub fn producer(&self) -> PathBuf {
        self.folder.path().join("producer.sock")
    }

    /// The consumer socket.
    #[must_use]
    pub fn consumer(&self) -> PathBuf {
        self.folder.path().join("consumer.sock")
    }

    /// The variables that lead a program to these sockets.
    #[must_use]
    pub fn environment(&self) -> [(&'static str, OsString); 2] {
        [
            ("PERFETTO_PRODUCER_SOCK_NAME", self.producer().into()),
            ("PERFETTO_CONSUMER_SOCK_NAME", self.consumer().into()),
        ]
    }
}

impl Default for Sockets {
    fn default() -> Self {
        Self::new()
    }
}

/// A running service. Stopped when dropped.
#[derive(Debug)]
pub struct Service {
    child: Child,
}

impl Service {
    /// Starts the service and returns when it listens.
    ///
    /// # Panics
    ///
    /// When it does not come up.
    #[must_use]
    pub fn start(sockets: &Sockets) -> Self {
        let program = std::env::var_os("FERRETTO_INTEROP_TRACED").expect("FERRETTO_INTEROP_TRACED names the service");
        let _ = std::fs::remove_file(sockets.consumer());
        let mut child = Command::new(program)
            .envs(sockets.environment())
            .stdin(Stdio::null())
            .spawn()
            .expect("the service starts");
        let deadline = Instant::now() + Duration::from_secs(30);
        while UnixStream::connect(sockets.consumer()).is_err() {
            assert!(child.try_wait().is_ok_and(|status| status.is_none()));
            assert!(Instant::now() < deadline, "the service does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
        Self { child }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
