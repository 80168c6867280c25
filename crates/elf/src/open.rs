//! Opening files that others name.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};

/// Opens a file to be read, if it is a regular one.
///
/// A name may lead to a FIFO, which would make us wait, or to a device, where opening alone may do something. So it
/// is first opened as a mere place, and for reading only when it is known to be a regular file.
///
/// # Errors
/// If there is none, it is not a regular file (`InvalidInput`), or the system refuses.
pub fn open_regular(path: impl AsRef<Path>) -> io::Result<File> {
    let place = rustix::fs::open(path.as_ref(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let stat = rustix::fs::fstat(&place)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        ));
    }
    use std::os::fd::AsRawFd as _;
    let name = format!("/proc/self/fd/{}", place.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    Ok(File::from(rustix::fs::open(name, flags, Mode::empty())?))
}
