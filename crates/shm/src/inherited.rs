//! Descriptors that the parent process left open for this one.

use std::io;
use std::os::fd::{BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::{Errno, FdFlags, fcntl_getfd, fcntl_setfd};

/// Standard input, output and error belong to the standard library.
const FIRST: usize = 3;
/// Descriptors from here on are not checked.
const END: usize = 1024;

/// A bit for each descriptor that was open when this process started, and that has not been taken
/// yet.
static LEFT: [AtomicU64; END / 64] = [const { AtomicU64::new(0) }; END / 64];

/// Makes the loader call [`look`] before `main`, and before this program can open a descriptor.
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

/// Takes a descriptor that the parent process left open and named by number, for example in an
/// environment variable. It is closed when the value is dropped, and is not passed on to programs
/// that this process starts.
///
/// Only descriptors that were open before `main` can be taken, and each only once. So the result is
/// never a descriptor that this process opened itself, and never has two owners.
///
/// # Errors
///
/// Fails if the descriptor was not open when the process started, or was taken before (`EBADF`), or
/// is above 1023.
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

    /// Set in the process that inherits the descriptor.
    const NUMBER: &str = "FERRETTO_TEST_INHERITED";

    #[test]
    fn an_inherited_descriptor_is_taken_once() {
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
        let name = "inherited::tests::an_inherited_descriptor_is_taken_once";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env(NUMBER, writer.as_raw_fd().to_string())
            .spawn()
            .unwrap();
        drop(writer);
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        assert_eq!(read, b"1", "the descriptor is closed with its owner");
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn a_descriptor_that_this_process_opened_is_never_taken() {
        let (reader, writer) = io::pipe().unwrap();
        assert!(take_inherited(reader.as_raw_fd()).is_err());
        for number in [-1, 0, 1, 2, 1023, 1_000_000] {
            assert!(take_inherited(number).is_err(), "{number}");
        }
        // Not even if the descriptor is inheritable, as one from the parent would be.
        fcntl_setfd(&writer, FdFlags::empty()).unwrap();
        assert!(take_inherited(writer.as_raw_fd()).is_err());
        fcntl_setfd(&writer, FdFlags::CLOEXEC).unwrap();
        let number = writer.into_raw_fd();
        assert!(take_inherited(number).is_err(), "not even without an owner");
    }
}
