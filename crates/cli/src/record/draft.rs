//! The trace file of a running recording.
//!
//! It is written as `FILE.part`, and renamed once it has data, so a recording that cannot start
//! does not change an earlier file. The earlier file is kept as `FILE.old`. Both names are locked
//! while a recording writes, so that two recordings cannot write into one file.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use rustix::fs::OFlags;

use crate::output::{RegularFile, is_locked, lock};

/// The mode of trace files, which contain private data: only the owner may read them.
const MODE: u32 = 0o600;
/// The number of attempts while others create and rename files of the same name.
const ATTEMPTS: usize = 100;

/// A file written under a temporary name, shared by the writer and the renamer.
#[derive(Debug, Clone)]
pub(super) struct Draft(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    file: File,
    path: PathBuf,
    part: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Beside,
    /// Renamed; with the new path of the earlier file.
    Renamed(Option<PathBuf>),
    /// Renaming failed; the file keeps its temporary name.
    Stuck,
}

impl Draft {
    /// Creates a file that will be renamed to `target`.
    ///
    /// # Errors
    ///
    /// Fails if another recording writes it, or it cannot be created.
    pub(super) fn begin(target: &RegularFile) -> Result<Self> {
        let path = target.path.clone();
        let part = with_ending(&path, ".part");
        for _ in 0..ATTEMPTS {
            let Some(file) = open(&part, target)? else {
                continue;
            };
            if !lock(&file) {
                bail!("{}", busy(&path));
            }
            // The previous owner of the lock may have renamed or removed the file.
            if !is_at(&file, &part) {
                continue;
            }
            let draft = Self(Arc::new(Inner {
                file,
                path,
                part,
                state: Mutex::new(State::Beside),
            }));
            // No other recording renames a file to this path from here on.
            if is_locked(&draft.0.path) {
                bail!("{}", busy(&draft.0.path));
            }
            draft.0.file.set_len(0)?;
            let owner_only = fs::Permissions::from_mode(MODE);
            draft.0.file.set_permissions(owner_only)?;
            return Ok(draft);
        }
        bail!("{} keeps being replaced by others", part.display())
    }

    /// Returns the file to write to.
    pub(super) fn file(&self) -> &File {
        &self.0.file
    }

    /// Returns the final path.
    pub(super) fn path(&self) -> &Path {
        &self.0.path
    }

    /// Returns the new path of the earlier file.
    pub(super) fn old(&self) -> Option<PathBuf> {
        match &*self.0.state() {
            State::Renamed(old) => old.clone(),
            State::Beside | State::Stuck => None,
        }
    }

    /// Renames the file if it has data.
    ///
    /// # Errors
    ///
    /// Fails if renaming fails. The error names the temporary file, which is kept; the next call
    /// tries again.
    pub(super) fn rename(&self) -> Result<()> {
        let inner = &*self.0;
        let mut state = inner.state();
        if matches!(*state, State::Renamed(_))
            || inner.file.metadata().is_ok_and(|file| file.len() == 0)
        {
            return Ok(());
        }
        let shown = inner.path.display();
        let moved = keep_old(&inner.path).and_then(|old| {
            let moved = fs::rename(&inner.part, &inner.path);
            if let (Err(_), Some(old)) = (&moved, &old) {
                // The error is the one to report.
                let _ = fs::rename(old, &inner.path);
            }
            moved.map(|()| old)
        });
        match moved {
            Ok(old) => *state = State::Renamed(old),
            Err(error) => {
                *state = State::Stuck;
                let part = inner.part.display();
                return Err(error).with_context(|| {
                    format!("cannot rename the trace to {shown}; it is kept in {part}")
                });
            }
        }
        give_to_sudo_user(&inner.file);
        Ok(())
    }
}

impl Inner {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if *self.state() == State::Beside {
            // The file is still locked, so it is ours. If it cannot be removed, the next recording
            // reuses it.
            let _ = fs::remove_file(&self.part);
        }
    }
}

/// Opens or creates the temporary file. Returns `None` if it vanished meanwhile.
fn open(part: &Path, target: &RegularFile) -> Result<Option<File>> {
    let shown = part.display();
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(MODE);
    // Links are not followed, and pipes do not block.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.custom_flags(flags.bits().cast_signed());
    match options.clone().create_new(true).open(part) {
        Ok(file) => return Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => {
            let name = target.path.display();
            return Err(error).with_context(|| format!("cannot write {name}"));
        }
    }
    let not_ours = || {
        format!(
            "cannot write {}: {shown} exists and is not from a recording of yours; remove it, or \
             choose another file with -o",
            target.path.display()
        )
    };
    let file = match options.open(part) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(not_ours),
    };
    if file.metadata().is_ok_and(|file| is_ours(&file)) {
        Ok(Some(file))
    } else {
        bail!("{}", not_ours())
    }
}

/// Returns true if only this user can have created the file, and it has no other name.
fn is_ours(file: &Metadata) -> bool {
    // A file that was just renamed over has no name.
    file.is_file() && file.uid() == rustix::process::geteuid().as_raw() && file.nlink() <= 1
}

fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(file), Ok(there)) = (file.metadata(), fs::symlink_metadata(path)) else {
        return false;
    };
    (file.dev(), file.ino()) == (there.dev(), there.ino())
}

/// Renames an existing file, and returns its new path.
fn keep_old(path: &Path) -> io::Result<Option<PathBuf>> {
    let old = with_ending(path, ".old");
    match fs::rename(path, &old) {
        Ok(()) => Ok(Some(old)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut path = OsString::from(path);
    path.push(ending);
    path.into()
}

/// Returns the message for a file that another recording writes.
pub(super) fn busy(path: &Path) -> String {
    let (stem, extension) = (path.file_stem(), path.extension());
    let free = (2..ATTEMPTS).find_map(|number| {
        let mut name = stem?.to_owned();
        name.push(format!("-{number}"));
        if let Some(extension) = extension {
            name.push(".");
            name.push(extension);
        }
        let other = path.with_file_name(name);
        (fs::symlink_metadata(&other).is_err()).then_some(other)
    });
    let advice = match free {
        Some(free) => format!(
            "choose another file, for example with -o {}",
            free.display()
        ),
        None => "choose another file with -o".to_owned(),
    };
    format!(
        "another recording is being written to {}; {advice}",
        path.display()
    )
}

/// Gives the trace to the user who called sudo.
fn give_to_sudo_user(file: &File) {
    let id = |name| std::env::var(name).ok()?.parse::<u32>().ok();
    if rustix::process::geteuid().is_root()
        && let (Some(uid), Some(gid)) = (id("SUDO_UID"), id("SUDO_GID"))
    {
        // On failure the trace stays root's.
        let _ = std::os::unix::fs::fchown(file, Some(uid), Some(gid));
    }
}
