//! Opening files that others name.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};

/// Opens a file to be read, if it is a regular one.
///
/// A name may lead to a FIFO, which would make us wait, or to a device, where opening alone may do
/// something. So it is first opened as a mere place, and for reading only when it is known to be a
/// regular file.
///
/// # Errors
/// If there is none, it is not a regular file (`InvalidInput`), or the system refuses.
pub fn open_regular(path: impl AsRef<Path>) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    regular(rustix::fs::open(path.as_ref(), flags, Mode::empty())?)
}

/// Opens a file as [`open_regular`] does, by its name in a process that has `root` for its root
/// folder, such as `/proc/PID/root`. Symbolic links are followed as that process would follow them,
/// and never lead out of `root`.
///
/// # Errors
/// As [`open_regular`].
pub fn open_regular_within(root: impl AsFd, path: impl AsRef<Path>) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let place = rustix::fs::openat2(root, path.as_ref(), flags, Mode::empty(), resolve)?;
    regular(place)
}

fn regular(place: OwnedFd) -> io::Result<File> {
    let stat = rustix::fs::fstat(&place)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        ));
    }
    let name = format!("/proc/self/fd/{}", place.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    Ok(File::from(rustix::fs::open(name, flags, Mode::empty())?))
}
