//! A child that is forked while an instance is stopping. One test, with its own process.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::common::{Source, init};
use ferretto_c::*;

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(status: i32) -> !;
}

static STOPPER: AtomicPtr<PerfettoDsAsyncStopper> = AtomicPtr::new(ptr::null_mut());

unsafe extern "C" fn postpone(
    _: *mut PerfettoDsImpl,
    _: u32,
    _: *mut c_void,
    _: *mut c_void,
    args: *mut PerfettoDsOnStopArgs,
) {
    // SAFETY: the library calls this by the contract of the headers.
    let stopper = unsafe { PerfettoDsOnStopArgsPostpone(args) };
    STOPPER.store(stopper, Ordering::Release);
}

#[test]
fn a_stop_of_the_parent_has_no_effect_in_the_child() {
    ferretto_testing::own_process!();
    init();
    let source = Source::register("stopping", |ds| {
        // SAFETY: by the contract of the headers.
        unsafe { PerfettoDsSetOnStopCallback(ds, Some(postpone)) };
    });
    let session = Source::record("stopping");
    assert!(source.is_enabled());
    // SAFETY: by the contract of the headers.
    unsafe { PerfettoTracingSessionStopAsync(session.0) };
    while STOPPER.load(Ordering::Acquire).is_null() {
        std::thread::yield_now();
    }
    let stopper = STOPPER.load(Ordering::Acquire);
    // SAFETY: the child only uses the library, which supports this, and ends.
    let child = unsafe { fork() };
    if child == 0 {
        // SAFETY: the child's copy, used once; ends the process without running destructors of the
        // parent.
        unsafe {
            PerfettoDsStopDone(stopper);
            // The child has not determined its recordings yet.
            _exit(i32::from(!source.is_enabled()));
        }
    }
    let mut status = -1;
    // SAFETY: `status` is valid for writing.
    assert_eq!(unsafe { waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    // SAFETY: by the contract of the headers.
    unsafe { PerfettoDsStopDone(stopper) };
    session.stop();
    assert!(!source.is_enabled());
}
