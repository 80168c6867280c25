//! For tests of forked children and of libraries that are loaded at run time, in crates that have no unsafe code.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

unsafe extern "C" {
    fn fork() -> c_int;
    fn waitpid(process: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn _exit(status: c_int) -> !;
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlclose(library: *mut c_void) -> c_int;
}

const RTLD_NOW: c_int = 2;

/// A forked child. It must be waited for.
#[derive(Debug)]
#[must_use]
pub struct Child(c_int);

/// Forks the process, runs `act` in the child and ends it without running anything else there.
///
/// A panic, a lost lock and the like are the test's own business: what other threads of the parent held at the time is
/// held for ever in the child. Nothing of that is undefined behaviour.
///
/// # Errors
///
/// If the system refuses another process.
pub fn run_in_child(act: impl FnOnce()) -> io::Result<Child> {
    // SAFETY: of the memory that is copied nothing can be torn for this thread, the only one of the child; locks that
    // others held stay locked, which safe code must expect anyway; the allocator of the C library works after a fork.
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
    /// Its number.
    pub fn id(&self) -> i32 {
        self.0
    }

    /// Waits for its end. Returns whether it did what it should.
    pub fn wait(self) -> bool {
        let mut status = -1;
        // SAFETY: `status` is valid for writing.
        let waited = unsafe { waitpid(self.0, &raw mut status, 0) };
        waited == self.0 && status == 0
    }
}

/// Loads a library, calls a function of it that takes and returns nothing, and gives the library back.
///
/// # Errors
///
/// If there is no such library, or no such function in it.
pub fn call_library(library: &Path, function: &CStr) -> io::Result<()> {
    let path = CString::new(library.as_os_str().as_bytes())?;
    // SAFETY: a path that ends with a zero. What the library does when it is loaded is the test's own business.
    let loaded = unsafe { dlopen(path.as_ptr(), RTLD_NOW) };
    if loaded.is_null() {
        return Err(io::ErrorKind::NotFound.into());
    }
    // SAFETY: a library that is loaded, and a name that ends with a zero.
    let address = unsafe { dlsym(loaded, function.as_ptr()) };
    if !address.is_null() {
        // SAFETY: the test names a function of this type.
        let function: extern "C" fn() = unsafe { std::mem::transmute(address) };
        function();
    }
    // SAFETY: loaded above, and not used any more.
    unsafe { dlclose(loaded) };
    if address.is_null() {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(())
}
