//! Incomplete files, which are removed if a signal ends the process.

use std::fs::{self, Permissions};
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ};
use tempfile::NamedTempFile;

use crate::ignored::is_ignored;

/// A file that is removed if a signal ends this process.
#[derive(Debug)]
pub(crate) struct Unfinished(PathBuf);

/// The files to remove.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// True if the program itself handles signals.
static ARE_HANDLED: AtomicBool = AtomicBool::new(false);

/// Leaves signals to handlers of the program while no file is incomplete. Otherwise they end the
/// process from its first incomplete file on.
pub fn leave_signals() {
    ARE_HANDLED.store(true, Ordering::Release);
}

impl Unfinished {
    /// Creates a temporary file in a folder. A signal removes it until the second result is
    /// dropped. If signals cannot be handled, the file is not removed.
    pub(crate) fn create(folder: &Path, mode: u32) -> io::Result<(NamedTempFile, Self)> {
        static HANDLING: Once = Once::new();
        HANDLING.call_once(|| drop(remove_at_signals()));
        // The lock is held, so that the handler of a signal waits until the file is in the list.
        let mut list = list();
        let file = tempfile::Builder::new()
            .prefix(".ferretto-")
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(folder)?;
        let path = file.path().to_owned();
        list.push(path.clone());
        drop(list);
        Ok((file, Self(path)))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        list().retain(|path| *path != self.0);
    }
}

fn list() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a thread that waits for signals that end the process. Signals that were ignored when the
/// process started remain ignored, as under `nohup`.
fn remove_at_signals() -> io::Result<()> {
    // At the size limit of a file, writing fails instead of ending the process.
    signal_hook::flag::register(SIGXFSZ, Arc::default())?;
    let signalled = Arc::new(AtomicUsize::new(0));
    let (mut read, write) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
        if is_ignored(signal) {
            continue;
        }
        signal_hook::flag::register_usize(signal, Arc::clone(&signalled), signal as usize)?;
        signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
    }
    let wait = move || {
        while read.read_exact(&mut [0]).is_ok() {
            // The lock is held to the end, so that no file is completed in the meantime.
            let unfinished = list();
            if unfinished.is_empty() && ARE_HANDLED.load(Ordering::Acquire) {
                continue;
            }
            for path in &*unfinished {
                let _ = fs::remove_file(path);
            }
            let signal = signalled.load(Ordering::Acquire) as i32;
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    };
    let thread = std::thread::Builder::new().name("signals".to_owned());
    thread.spawn(wait).map(drop)
}
