//! Forked children for the tests of crates without unsafe code.

use std::ffi::c_int;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

unsafe extern "C" {
    fn fork() -> c_int;
    fn waitpid(process: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn _exit(status: c_int) -> !;
}

/// A forked child. Wait for it.
#[derive(Debug)]
#[must_use]
pub struct Child(c_int);

/// Forks the process, runs `act` in the child and ends the child without running other code there.
///
/// Locks held by other threads of the parent stay locked in the child for ever. That may fail the
/// test, but is not undefined behaviour.
///
/// # Errors
///
/// Fails if the system refuses another process.
pub fn run_in_child(act: impl FnOnce()) -> io::Result<Child> {
    // SAFETY: of the memory that is copied nothing can be torn for this thread, the only one of the
    // child; locks that others held stay locked, which safe code must expect anyway; the allocator
    // of the C library works after a fork.
    match unsafe { fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let worked = catch_unwind(AssertUnwindSafe(act)).is_ok();
            // SAFETY: ends the process.
            unsafe { _exit(if worked { 0 } else { 101 }) }
        }
        child => Ok(Child(child)),
    }
}

impl Child {
    /// Returns the process id.
    pub fn id(&self) -> i32 {
        self.0
    }

    /// Waits for the child to end. Returns true if it succeeded.
    pub fn wait(self) -> bool {
        let mut status = -1;
        // SAFETY: `status` is valid for writing.
        let waited = unsafe { waitpid(self.0, &raw mut status, 0) };
        waited == self.0 && status == 0
    }
}
