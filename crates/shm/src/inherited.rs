//! Descriptors that whoever started this process left open for it.

use std::io;
use std::os::fd::{BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::sync::{Mutex, PoisonError};

use rustix::io::{Errno, FdFlags, fcntl_getfd, fcntl_setfd};

/// Standard input, output and error belong to the standard library.
const FIRST: RawFd = 3;

/// Takes over a descriptor that the parent process left open and named by number, for example in an environment
/// variable. It closes when the value is dropped, and is not passed on to programs that this process starts.
///
/// Everything this process opens itself is marked to be closed on `exec`, and what survived an `exec` has no such mark:
/// so a number of something else is never taken, and nothing is taken twice.
///
/// # Errors
///
/// If nothing is open under the number, or it was not inherited (`EBADF`).
pub fn take_inherited(number: RawFd) -> io::Result<OwnedFd> {
    /// Looking and marking are one step.
    static TAKING: Mutex<()> = Mutex::new(());
    let _taking = TAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if number < FIRST {
        return Err(Errno::BADF.into());
    }
    // SAFETY: the descriptor is only asked about and marked; that fails if nothing is open under the number. It stays
    // open meanwhile: what others in this process own is left alone by the check, and what nobody owns nobody closes.
    let fd = unsafe { BorrowedFd::borrow_raw(number) };
    if fcntl_getfd(fd)?.contains(FdFlags::CLOEXEC) {
        return Err(Errno::BADF.into());
    }
    fcntl_setfd(fd, FdFlags::CLOEXEC)?;
    // SAFETY: it is open, and nobody in this process owns it: owners open with CLOEXEC, which was not set. It is set
    // now, so that this function never makes a second owner.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsRawFd as _;
    use std::os::fd::IntoRawFd as _;

    use super::*;

    #[test]
    fn what_the_parent_left_open_is_taken_once() {
        let (mut reader, writer) = io::pipe().unwrap();
        fcntl_setfd(&writer, FdFlags::empty()).unwrap();
        let number = writer.into_raw_fd();
        let fd = take_inherited(number).unwrap();
        assert!(take_inherited(number).is_err(), "it has an owner now");
        std::fs::File::from(fd).write_all(b"1").unwrap();
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        assert_eq!(read, b"1", "and it is closed with its owner");
    }

    #[test]
    fn what_this_process_opened_is_never_taken() {
        let (reader, _writer) = io::pipe().unwrap();
        assert!(take_inherited(reader.as_raw_fd()).is_err());
        for number in [-1, 0, 1, 2, 1_000_000] {
            assert!(take_inherited(number).is_err(), "{number}");
        }
    }
}
