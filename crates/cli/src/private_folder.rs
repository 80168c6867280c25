//! Private folders for the sockets of a process.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use ferretto_ipc::address::MAX_SOCKET_PATH;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, unlinkat};
use tempfile::TempDir;

/// The prefix of the folders' names.
const PREFIX: &str = "ferretto-run-";
/// The folder of the sockets. A service locks the folder in which it starts, and would wait for the
/// lock of the private folder itself.
const INNER: &str = "s";
/// The possible names in it. Nothing else is ever removed.
const SOCKETS: [&str; 3] = ["producer.sock", "consumer.sock", "gate"];
/// The number of characters that `tempfile` adds to the prefix.
const RANDOM: usize = 10;
/// The number of attempts if another process mistakes the new folder for a stale one.
const ATTEMPTS: usize = 10;

/// A folder that only this user can enter. It is removed on drop.
///
/// It is locked while its process lives. So the next process can recognise and remove the folder of
/// a killed process.
#[derive(Debug)]
pub(crate) struct PrivateFolder {
    _folder: TempDir,
    _lock: File,
    inner: PathBuf,
}

impl PrivateFolder {
    /// Creates a folder for temporary files; in `/run/user` or `/tmp` if the path of a socket would
    /// be too long.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be created anywhere.
    pub(crate) fn create() -> io::Result<Self> {
        let base = base();
        let explain = |error: io::Error| {
            let base = base.display();
            io::Error::new(
                error.kind(),
                format!("cannot create a folder for the sockets in {base}: {error}"),
            )
        };
        remove_stale(&base);
        for _ in 0..ATTEMPTS {
            let folder = tempfile::Builder::new()
                .prefix(PREFIX)
                .rand_bytes(RANDOM)
                .permissions(Permissions::from_mode(0o700))
                .tempdir_in(&base)
                .map_err(explain)?;
            let lock = match open(folder.path()) {
                Ok(lock) => lock,
                // Another process took it for stale.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(explain(error)),
            };
            // Waits for a process that checks the lock. If folders cannot be locked, none is ever
            // removed.
            let _ = flock(&lock, FlockOperation::LockExclusive);
            if folder.path().is_dir() {
                let inner = folder.path().join(INNER);
                let mut private = DirBuilder::new();
                private.mode(0o700).create(&inner).map_err(explain)?;
                return Ok(Self {
                    _folder: folder,
                    _lock: lock,
                    inner,
                });
            }
        }
        Err(explain(io::ErrorKind::NotFound.into()))
    }

    /// Returns the path of the folder for the sockets.
    pub(crate) fn path(&self) -> &Path {
        &self.inner
    }
}

/// Returns the parent folder of private folders.
fn base() -> PathBuf {
    let wanted = std::env::temp_dir();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let user = PathBuf::from(format!("/run/user/{}", rustix::process::geteuid().as_raw()));
    let candidates = [
        Some(wanted.clone()),
        runtime,
        Some(user),
        Some("/tmp".into()),
    ];
    let mut usable = candidates.into_iter().flatten().filter(|base| fits(base));
    // Without any, the error is about the configured one.
    usable.find(|base| base.is_dir()).unwrap_or(wanted)
}

/// Returns true if the path of a socket there is short enough for the kernel.
fn fits(base: &Path) -> bool {
    let longest = SOCKETS.iter().map(|name| name.len()).max().unwrap_or(0);
    let below = "///".len() + PREFIX.len() + RANDOM + INNER.len() + longest;
    base.is_absolute() && base.as_os_str().as_bytes().len() + below <= MAX_SOCKET_PATH
}

fn open(folder: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(folder, flags, Mode::empty())?.into())
}

/// Removes folders of this user whose processes are gone. Touches nothing else.
fn remove_stale(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else {
        return;
    };
    for entry in entries.flatten() {
        if is_such_a_name(&entry.file_name()) {
            // Another process may be removing it.
            let _ = remove_if_stale(&entry.path());
        }
    }
}

fn is_such_a_name(name: &OsStr) -> bool {
    let random = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
    random.is_some_and(|random| random.len() == RANDOM)
}

fn remove_if_stale(path: &Path) -> io::Result<()> {
    let folder = open(path)?;
    let metadata = folder.metadata()?;
    let is_ours = metadata.uid() == rustix::process::geteuid().as_raw();
    if !is_ours || metadata.mode() & 0o777 != 0o700 {
        return Ok(());
    }
    flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
    // In the open folder, even if the path is another one by now.
    for socket in SOCKETS {
        let _ = unlinkat(&folder, format!("{INNER}/{socket}"), AtFlags::empty());
    }
    let _ = unlinkat(&folder, INNER, AtFlags::REMOVEDIR);
    fs::remove_dir(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_sockets_are_short_enough() {
        assert!(fits(Path::new("/tmp")));
        let base = PathBuf::from(format!("/{}", "a".repeat(100)));
        assert!(!fits(&base) && !fits(Path::new("relative")));
        let longest = (1..).map(|n| PathBuf::from(format!("/{}", "a".repeat(n))));
        let longest = longest.take_while(|base| fits(base)).last().unwrap();
        let name = format!("{PREFIX}{}", "x".repeat(RANDOM));
        let socket = longest.join(name).join(INNER).join("consumer.sock");
        assert_eq!(socket.as_os_str().len(), MAX_SOCKET_PATH);
    }
}
