//! The destination of a trace or another output: the kind of file at its path, and protection
//! against files planted by other users.
//!
//! Links are resolved here and not by the kernel, whose `fs.protected_symlinks` may be off and does
//! not apply to renaming. Opening itself follows no links, and the file is
//! checked again, so that a file planted in between is not written either.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// The largest number of links to follow, as in the kernel.
const MAX_LINKS: usize = 40;

/// The destination of an output.
#[derive(Debug)]
pub enum Destination {
    /// A regular file, or none yet.
    Regular(RegularFile),
    /// A pipe, a device, or an open file of a process.
    Special(SpecialFile),
}

/// A regular file or none yet, with links resolved.
#[derive(Debug)]
pub struct RegularFile {
    /// The path, at which there is no link.
    pub path: PathBuf,
    /// Set if another user may have planted the file, so it must not be written to.
    pub may_be_planted: bool,
}

/// A pipe, a device, or an open file of a process, which is written directly.
#[derive(Debug)]
pub struct SpecialFile {
    path: PathBuf,
    /// Set for a link that only the kernel can follow.
    is_link: bool,
}

impl Destination {
    /// Resolves a path.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be written, or may have been planted by another user.
    pub fn of(path: &Path) -> io::Result<Self> {
        let (path, is_link) = follow(path)?;
        if is_link {
            return Ok(Self::Special(SpecialFile { path, is_link }));
        }
        let found = match fs::symlink_metadata(&path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self::Regular(RegularFile {
                    path,
                    may_be_planted: false,
                }));
            }
            Err(error) => return Err(error),
        };
        if found.is_dir() {
            return Err(io::Error::new(
                io::ErrorKind::IsADirectory,
                "it is a directory",
            ));
        }
        if found.file_type().is_socket() {
            return Err(io::Error::other(
                "it is a socket; pipe the output to a program that sends it",
            ));
        }
        let may_be_planted = is_planted(&path, &found);
        if found.is_file() {
            check_replaceable(&path, &found)?;
            return Ok(Self::Regular(RegularFile {
                path,
                may_be_planted,
            }));
        }
        if may_be_planted {
            return Err(refused(PLANTED_PIPE));
        }
        Ok(Self::Special(SpecialFile { path, is_link }))
    }
}

impl RegularFile {
    /// Returns the file's folder.
    pub fn folder(&self) -> &Path {
        folder(&self.path)
    }

    /// Returns true if other users can create files in the folder.
    pub fn is_in_shared_folder(&self) -> bool {
        self.folder()
            .metadata()
            .is_ok_and(|folder| is_shared(&folder))
    }

    /// Opens the file to write into it, without truncating it.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be opened, is not a regular file any more, or may have been planted.
    pub fn open(&self, options: &OpenOptions) -> io::Result<File> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut options = options.clone();
        let file = options
            .custom_flags(flags.bits().cast_signed())
            .open(&self.path)?;
        let found = file.metadata()?;
        if !found.is_file() || is_planted(&self.path, &found) {
            return Err(io::Error::other(
                "another user may have created it in a shared folder",
            ));
        }
        Ok(file)
    }
}

impl SpecialFile {
    /// Opens the file.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be opened, or may have been planted by another user in the meantime.
    pub fn open(&self, options: &OpenOptions) -> io::Result<File> {
        if self.is_link {
            return options.open(&self.path);
        }
        // Inspected before it is opened, which has effects, and may wait for a pipe's reader.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let there: OwnedFd = rustix::fs::open(&self.path, flags, Mode::empty())?;
        let there = File::from(there);
        if is_planted(&self.path, &there.metadata()?) {
            return Err(refused(PLANTED_PIPE));
        }
        options.open(format!("/proc/self/fd/{}", there.as_raw_fd()))
    }

    /// Returns true if it is a pipe.
    pub fn is_pipe(&self) -> bool {
        self.path
            .metadata()
            .is_ok_and(|file| file.file_type().is_fifo())
    }
}

/// The reasons why a file of another user is not written.
const PLANTED_PIPE: &str = "it is a pipe of another user in a folder that others may write to";
const PLANTED_LINK: &str = "it is a symbolic link of another user in a folder that others may \
                            write to, and is not followed";
const PROTECTED: &str = "it belongs to another user";

fn refused(reason: &str) -> io::Error {
    let text = format!("{reason}; choose another file");
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

/// Follows links that no other user can have planted. The second result is true for a link that
/// only the kernel can follow.
fn follow(path: &Path) -> io::Result<(PathBuf, bool)> {
    let mut target = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        let Ok(found) = fs::symlink_metadata(&target) else {
            return Ok((target, false));
        };
        if !found.is_symlink() {
            return Ok((target, false));
        }
        if folder(&target)
            .canonicalize()
            .is_ok_and(|folder| folder.starts_with("/proc"))
        {
            return Ok((target, true));
        }
        if is_planted(&target, &found) {
            return Err(refused(PLANTED_LINK));
        }
        let next = fs::read_link(&target)?;
        target = folder(&target).join(next);
    }
    Err(io::Error::other("too many symbolic links"))
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Returns true if users other than its owner may create files in a folder.
fn is_shared(folder: &Metadata) -> bool {
    folder.mode() & 0o022 != 0
}

/// Returns true if another user may have planted a file in a shared folder.
fn is_planted(path: &Path, found: &Metadata) -> bool {
    let Ok(folder) = folder(path).metadata() else {
        return false;
    };
    let trusted = [0, rustix::process::geteuid().as_raw(), folder.uid()];
    is_shared(&folder) && !trusted.contains(&found.uid())
}

/// Returns true if a file can be replaced. In a sticky folder only root may rename the files of
/// others.
fn check_replaceable(path: &Path, found: &Metadata) -> io::Result<()> {
    let me = rustix::process::geteuid();
    let Ok(folder) = folder(path).metadata() else {
        return Ok(());
    };
    let is_mine = [found.uid(), folder.uid()].contains(&me.as_raw());
    if folder.mode() & 0o1000 != 0 && !is_mine && !me.is_root() {
        return Err(refused(PROTECTED));
    }
    Ok(())
}
