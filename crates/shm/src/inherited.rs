//! Descriptors that the parent process left open for this one.

use std::io;
use std::os::fd::{BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::{Errno, FdFlags, fcntl_getfd, fcntl_setfd};

/// Standard input, output and error belong to the standard library.
const FIRST: usize = 3;
/// Numbers from here on are not looked at.
const END: usize = 1024;

/// A bit for each number that was open when this process began, and that nobody has taken yet.
static LEFT: [AtomicU64; END / 64] = [const { AtomicU64::new(0) }; END / 64];

/// Has the loader call [`look`] before `main`, and before anything here could open something of its
/// own.
#[used]
// SAFETY: the section holds pointers to functions, which the loader calls with arguments that
// `look` has no use for.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    for number in FIRST..END {
        // SAFETY: the descriptor is only asked about, and nobody else runs yet who could close it.
        let fd = unsafe { BorrowedFd::borrow_raw(number as RawFd) };
        // A descriptor that `exec` closes cannot be inherited: this process opened it.
        if fcntl_getfd(fd).is_ok_and(|flags| !flags.contains(FdFlags::CLOEXEC)) {
            LEFT[number / 64].fetch_or(1 << (number % 64), Ordering::Relaxed);
        }
    }
}

/// Takes over a descriptor that the parent process left open and named by number, for example in an
/// environment variable. It closes when the value is dropped, and is not passed on to programs that
/// this process starts.
///
/// Only what was open before `main` is taken, and only once: so it is never something that this
/// process opened itself, and never has two owners.
///
/// # Errors
///
/// If nothing was open under the number when the process began, or it was taken before (`EBADF`).
/// Numbers above 1023 are not known.
pub fn take_inherited(number: RawFd) -> io::Result<OwnedFd> {
    let index = usize::try_from(number).map_err(|_| Errno::BADF)?;
    let word = LEFT.get(index / 64).ok_or(Errno::BADF)?;
    let bit = 1 << (index % 64);
    if word.fetch_and(!bit, Ordering::Relaxed) & bit == 0 {
        return Err(Errno::BADF.into());
    }
    // SAFETY: it was open when the process began, when nothing in it owned anything. Since then it
    // could get an owner only here, where each is taken once; and nobody closes a descriptor
    // without an owner.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    fcntl_setfd(&fd, FdFlags::CLOEXEC)?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::{AsRawFd as _, IntoRawFd as _};
    use std::process::Command;

    use super::*;

    /// Set in the process that something is left to.
    const NUMBER: &str = "FERRETTO_TEST_INHERITED";

    #[test]
    fn what_the_parent_left_open_is_taken_once() {
        if let Some(number) = std::env::var(NUMBER)
            .ok()
            .map(|number| number.parse().unwrap())
        {
            let fd = take_inherited(number).unwrap();
            assert!(take_inherited(number).is_err(), "it has an owner now");
            std::fs::File::from(fd).write_all(b"1").unwrap();
            assert!(take_inherited(number).is_err(), "it is closed");
            return;
        }
        let (mut reader, writer) = io::pipe().unwrap();
        fcntl_setfd(&writer, FdFlags::empty()).unwrap();
        let name = "inherited::tests::what_the_parent_left_open_is_taken_once";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env(NUMBER, writer.as_raw_fd().to_string())
            .spawn()
            .unwrap();
        drop(writer);
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        assert_eq!(read, b"1", "and it is closed with its owner");
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn what_this_process_opened_is_never_taken() {
        let (reader, writer) = io::pipe().unwrap();
        assert!(take_inherited(reader.as_raw_fd()).is_err());
        for number in [-1, 0, 1, 2, 1023, 1_000_000] {
            assert!(take_inherited(number).is_err(), "{number}");
        }
        // Not even if it is to be passed on, so that it looks like something that was.
        fcntl_setfd(&writer, FdFlags::empty()).unwrap();
        assert!(take_inherited(writer.as_raw_fd()).is_err());
        fcntl_setfd(&writer, FdFlags::CLOEXEC).unwrap();
        let number = writer.into_raw_fd();
        assert!(take_inherited(number).is_err(), "nor if nobody owns it");
    }
}
