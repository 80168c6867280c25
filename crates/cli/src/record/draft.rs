//! A trace file in the making.
//!
//! It is written beside its place, as `FILE.part`, and moved there when there is something in it: a
//! recording that cannot start leaves an earlier file alone. The earlier file is kept as
//! `FILE.old`. Both names are locked while a recording writes, so that no two recordings go into
//! one file.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use rustix::fs::OFlags;

use super::place::Place;
use crate::output::{is_locked, lock};

/// Traces tell much about a machine: only its owner may read one.
const MODE: u32 = 0o600;
/// The number of attempts when others make and move files of the same names.
const ATTEMPTS: usize = 100;

/// A file that is written beside its place. Shared by who writes it and who moves it.
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
    /// In its place; where the file that was there is now.
    Placed(Option<PathBuf>),
    /// It could not be moved to its place, and is kept where it is.
    Stuck,
}

impl Draft {
    /// Begins a file that is to come to `place`.
    ///
    /// # Errors
    ///
    /// If another recording writes it, or it cannot be made.
    pub(super) fn begin(place: &Place) -> Result<Self> {
        let path = place.path.clone();
        let part = with_ending(&path, ".part");
        for _ in 0..ATTEMPTS {
            let Some(file) = open(&part, place)? else {
                continue;
            };
            if !lock(&file) {
                bail!("{}", busy(&path));
            }
            // The previous owner of the lock may have moved or removed it.
            if !is_at(&file, &part) {
                continue;
            }
            let draft = Self(Arc::new(Inner {
                file,
                path,
                part,
                state: Mutex::new(State::Beside),
            }));
            // Nobody moves a file there from here on.
            if is_locked(&draft.0.path) {
                bail!("{}", busy(&draft.0.path));
            }
            draft.0.file.set_len(0)?;
            let owner_only = fs::Permissions::from_mode(MODE);
            draft.0.file.set_permissions(owner_only)?;
            return Ok(draft);
        }
        bail!("others keep moving {}", part.display())
    }

    /// The file, to be written to.
    pub(super) fn file(&self) -> &File {
        &self.0.file
    }

    /// The path that it is to get.
    pub(super) fn path(&self) -> &Path {
        &self.0.path
    }

    /// The path of the file that was there before.
    pub(super) fn old(&self) -> Option<PathBuf> {
        match &*self.0.state() {
            State::Placed(old) => old.clone(),
            State::Beside | State::Stuck => None,
        }
    }

    /// Moves it to its place if there is something in it.
    ///
    /// # Errors
    ///
    /// If that cannot be done; it then stays beside it, which the error says.
    pub(super) fn place(&self) -> Result<()> {
        let inner = &*self.0;
        let mut state = inner.state();
        if *state != State::Beside || inner.file.metadata().is_ok_and(|file| file.len() == 0) {
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
            Ok(old) => *state = State::Placed(old),
            Err(error) => {
                *state = State::Stuck;
                let part = inner.part.display();
                return Err(error).with_context(|| {
                    format!("cannot move the trace to {shown}; it is kept in {part}")
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
            // Still locked, so it is nobody else's. It stays if it cannot be removed, and is used
            // next time.
            let _ = fs::remove_file(&self.part);
        }
    }
}

/// Opens or makes the file beside the place. `None` if it went away meanwhile.
fn open(part: &Path, place: &Place) -> Result<Option<File>> {
    let shown = part.display();
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(MODE);
    // A link at the path is not followed, and a pipe is not waited for.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.custom_flags(flags.bits().cast_signed());
    match options.clone().create_new(true).open(part) {
        Ok(file) => return Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => {
            let name = place.path.display();
            return Err(error).with_context(|| format!("cannot write {name}"));
        }
    }
    let not_ours = || {
        format!(
            "cannot write {}: {shown} is there already, and not from a recording of yours; remove it, or \
             name another file with -o",
            place.path.display()
        )
    };
    let file = match options.open(part) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(not_ours),
    };
    match file.metadata().is_ok_and(|file| is_ours(&file)) {
        true => Ok(Some(file)),
        false => bail!("{}", not_ours()),
    }
}

/// A file that only this user can have made, and that has no other name.
fn is_ours(file: &Metadata) -> bool {
    // One that was just moved away has no name at all.
    file.is_file() && file.uid() == rustix::process::geteuid().as_raw() && file.nlink() <= 1
}

fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(file), Ok(there)) = (file.metadata(), fs::symlink_metadata(path)) else {
        return false;
    };
    (file.dev(), file.ino()) == (there.dev(), there.ino())
}

/// Renames what stands at a path, and returns how it is called now.
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
        Some(free) => format!("name another file, as with -o {}", free.display()),
        None => "name another file with -o".to_owned(),
    };
    format!(
        "another recording is being written to {}; {advice}",
        path.display()
    )
}

/// Under sudo the trace belongs to who called sudo, who will want to open it.
fn give_to_sudo_user(file: &File) {
    let id = |name| std::env::var(name).ok()?.parse::<u32>().ok();
    if rustix::process::geteuid().is_root()
        && let (Some(uid), Some(gid)) = (id("SUDO_UID"), id("SUDO_GID"))
    {
        // It then stays with root, which is no reason not to record.
        let _ = std::os::unix::fs::fchown(file, Some(uid), Some(gid));
    }
}
