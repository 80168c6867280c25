//! A hook for the orderly end of the process.

/// Calls `handler` when the process ends by returning from `main` or by `exit`, on the thread that
/// does so, after its thread-local values are gone. Other threads still run. Returns false if too
/// many handlers are registered.
///
/// The thread may have been interrupted anywhere, by a signal whose handler ends the process: its
/// locks stay locked. A handler that panics aborts the process.
pub fn at_exit(handler: extern "C" fn()) -> bool {
    // SAFETY: may be called at any time. The handler is code of this library, which is not unloaded
    // before it has run: a library that is unloaded runs its handlers then. It does not unwind, by
    // its ABI.
    unsafe { atexit(handler) == 0 }
}

// The C library, with which the standard library is linked anyway.
unsafe extern "C" {
    fn atexit(handler: extern "C" fn()) -> i32;
}
