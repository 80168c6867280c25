//! The path of a recording: the kind of file there, and protection against files planted by other
//! users.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::session::Signals;

/// The largest number of links to follow, as in the kernel.
const MAX_LINKS: usize = 40;
/// The period of checks for a pipe's reader.
const READER_PERIOD: Duration = Duration::from_millis(50);

/// A path of a regular file or of nothing, with links resolved.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) path: PathBuf,
    /// Set if another user may have planted the file, so it must not be written to.
    pub(super) may_be_planted: bool,
}

/// The target of a path.
#[derive(Debug)]
pub(super) enum Kind {
    /// A regular file, or none yet.
    Regular(Place),
    /// A pipe, a device, or an open file of a process, which is written directly.
    Direct,
}

/// Resolves a path.
///
/// # Errors
///
/// Fails if it cannot be written, or may have been planted by another user.
pub(super) fn look(path: &Path) -> Result<Kind> {
    let shown = path.display();
    let place = match follow(path)? {
        Some(place) => place,
        None => return Ok(Kind::Direct),
    };
    let found = match fs::symlink_metadata(&place) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Kind::Regular(Place {
                path: place,
                may_be_planted: false,
            }));
        }
        Err(error) => return Err(error).with_context(|| format!("cannot write {shown}")),
    };
    if found.is_dir() {
        bail!("cannot write {shown}: it is a directory");
    }
    if found.file_type().is_socket() {
        bail!(
            "cannot write {shown}: it is a socket; use -o - and pipe the trace to a program that sends it"
        );
    }
    if found.is_file() {
        check_replaceable(&place, &found)?;
        return Ok(Kind::Regular(Place {
            may_be_planted: is_planted(&place, &found),
            path: place,
        }));
    }
    if found.file_type().is_fifo() && is_planted(&place, &found) {
        bail!(
            "cannot write {shown}: it is a pipe of another user in a world-writable folder; \
             choose another file with -o"
        );
    }
    Ok(Kind::Direct)
}

/// Follows links that no other user can have planted. Returns `None` for links that only the kernel
/// can follow.
fn follow(path: &Path) -> Result<Option<PathBuf>> {
    let mut place = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        let Ok(found) = fs::symlink_metadata(&place) else {
            return Ok(Some(place));
        };
        if !found.is_symlink() {
            return Ok(Some(place));
        }
        if folder(&place)
            .canonicalize()
            .is_ok_and(|folder| folder.starts_with("/proc"))
        {
            return Ok(None);
        }
        if is_planted(&place, &found) {
            bail!(
                "cannot write {}: it is a symbolic link of another user in a world-writable folder and is not followed; \
                 choose another file with -o",
                path.display()
            );
        }
        let target = fs::read_link(&place)?;
        place = folder(&place).join(target);
    }
    bail!("cannot write {}: too many symbolic links", path.display())
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Returns true if another user may have planted a file in a world-writable folder.
fn is_planted(path: &Path, found: &Metadata) -> bool {
    let Ok(folder) = folder(path).metadata() else {
        return false;
    };
    let trusted = [rustix::process::geteuid().as_raw(), folder.uid()];
    folder.mode() & 0o002 != 0 && !trusted.contains(&found.uid())
}

/// Returns true if a file can be replaced. In a sticky folder only root may rename the files of
/// others.
fn check_replaceable(path: &Path, found: &Metadata) -> Result<()> {
    let me = rustix::process::geteuid();
    let Ok(folder) = folder(path).metadata() else {
        return Ok(());
    };
    let is_mine = [found.uid(), folder.uid()].contains(&me.as_raw());
    if folder.mode() & 0o1000 != 0 && !is_mine && !me.is_root() {
        bail!(
            "cannot write {}: it belongs to another user; choose another file with -o",
            path.display()
        );
    }
    Ok(())
}

/// Opens a file that is not regular. Waits until a pipe has a reader. Returns `None` if a signal to
/// end came first.
///
/// # Errors
///
/// Fails if it cannot be opened.
pub(super) fn open(path: &Path, signals: &mut Signals) -> Result<Option<File>> {
    let shown = path.display();
    let mut is_reported = false;
    loop {
        let mut options = OpenOptions::new();
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        options.write(true).custom_flags(flags.bits().cast_signed());
        let error = match options.open(path) {
            Ok(file) => return Ok(Some(file)),
            Err(error) => error,
        };
        let has_no_reader = error.raw_os_error() == Some(Errno::NXIO.raw_os_error())
            && path.metadata().is_ok_and(|file| file.file_type().is_fifo());
        if !has_no_reader {
            return Err(error).with_context(|| format!("cannot write {shown}"));
        }
        if !std::mem::replace(&mut is_reported, true) {
            anstream::eprintln!("ferretto: waiting for a reader of {shown}");
        }
        signals.wait(Some(Instant::now() + READER_PERIOD));
        if signals.take().iter().any(|signal| signal.ends()) {
            return Ok(None);
        }
    }
}
