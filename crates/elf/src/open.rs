//! Opens files whose names are not trusted.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};

/// Opens a regular file for reading.
///
/// Opening a FIFO can block, and opening a device can have side effects. So the name is opened with
/// `O_PATH` first, and for reading only if it is a regular file.
///
/// # Errors
/// Fails if the file is missing, is not a regular file (`InvalidInput`), or cannot be opened.
pub fn open_regular(path: impl AsRef<Path>) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    regular(rustix::fs::open(path.as_ref(), flags, Mode::empty())?)
}

/// Opens a file like [`open_regular`], by its name in a process with the root folder `root`, such
/// as `/proc/PID/root`. Symbolic links resolve as in that process, and never lead out of `root`.
///
/// # Errors
/// See [`open_regular`].
pub fn open_regular_within(root: impl AsFd, path: impl AsRef<Path>) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let path_fd = rustix::fs::openat2(root, path.as_ref(), flags, Mode::empty(), resolve)?;
    regular(path_fd)
}

fn regular(path_fd: OwnedFd) -> io::Result<File> {
    let stat = rustix::fs::fstat(&path_fd)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        ));
    }
    let name = format!("/proc/self/fd/{}", path_fd.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    Ok(File::from(rustix::fs::open(name, flags, Mode::empty())?))
}
