//! The place of a recording: the kind of file at the path, and whether another user may have put it
//! there.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::session::Signals;

/// As many links as the kernel follows.
const MAX_LINKS: usize = 40;
/// The period at which a pipe is checked for a reader.
const READER_PERIOD: Duration = Duration::from_millis(50);

/// A path whose links are followed: a regular file stands there, or nothing.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) path: PathBuf,
    /// Another user may have made the file there, so nothing may be written into it.
    pub(super) may_be_planted: bool,
}

/// The target of a path.
#[derive(Debug)]
pub(super) enum Kind {
    /// A regular file, or none yet.
    Regular(Place),
    /// A pipe, a device, or what a process has open: written as it is.
    Direct,
}

/// Finds out what a path leads to.
///
/// # Errors
///
/// If nothing can be written there, or the file there may have been planted by another user.
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
        bail!("cannot write {shown}: it is a socket; use -o - and a program that sends it there");
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
            "cannot write {shown}: it is a pipe of another user, in a folder that everyone may write to; \
             name another file with -o"
        );
    }
    Ok(Kind::Direct)
}

/// Follows links, those alone that nobody else can have planted. `None` for what the kernel alone
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
                "cannot write {}: it is a symbolic link of another user, in a folder that everyone may write to, and \
                 is not followed; name another file with -o",
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

/// Returns true if another user may have put a file into a folder that everyone may write to.
fn is_planted(path: &Path, found: &Metadata) -> bool {
    let Ok(folder) = folder(path).metadata() else {
        return false;
    };
    let trusted = [rustix::process::geteuid().as_raw(), folder.uid()];
    folder.mode() & 0o002 != 0 && !trusted.contains(&found.uid())
}

/// In a sticky folder nobody but root may move the files of others away.
fn check_replaceable(path: &Path, found: &Metadata) -> Result<()> {
    let me = rustix::process::geteuid();
    let Ok(folder) = folder(path).metadata() else {
        return Ok(());
    };
    let is_mine = [found.uid(), folder.uid()].contains(&me.as_raw());
    if folder.mode() & 0o1000 != 0 && !is_mine && !me.is_root() {
        bail!(
            "cannot write {}: it belongs to another user; name another file with -o",
            path.display()
        );
    }
    Ok(())
}

/// Opens a file that is not regular, once. A pipe is waited for until it has a reader; `None` if a
/// signal to end came before.
///
/// # Errors
///
/// If it cannot be opened.
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
