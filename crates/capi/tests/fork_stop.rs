//! A child that is forked while an instance is about to stop. One test, alone in its process.

mod common;

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use common::{Source, init};
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
    // SAFETY: called as the headers say.
    let stopper = unsafe { PerfettoDsOnStopArgsPostpone(args) };
    STOPPER.store(stopper, Ordering::Release);
}

#[test]
fn a_stop_of_the_parent_means_nothing_in_the_child() {
    init();
    let source = Source::register("stopping", |ds| {
        // SAFETY: used as the headers say.
        unsafe { PerfettoDsSetOnStopCallback(ds, Some(postpone)) };
    });
    let session = Source::record("stopping");
    assert!(source.is_enabled());
    // SAFETY: used as the headers say.
    unsafe { PerfettoTracingSessionStopAsync(session.0) };
    while STOPPER.load(Ordering::Acquire).is_null() {
        std::thread::yield_now();
    }
    let stopper = STOPPER.load(Ordering::Acquire);
    // SAFETY: the child uses nothing but the library, which is prepared for this, and ends.
    let child = unsafe { fork() };
    if child == 0 {
        // SAFETY: the child's copy, used once; ends the process without running anything of the
        // parent's.
        unsafe {
            PerfettoDsStopDone(stopper);
            // It has still to find out whether a recording includes it.
            _exit(i32::from(!source.is_enabled()));
        }
    }
    let mut status = -1;
    // SAFETY: `status` is valid for writing.
    assert_eq!(unsafe { waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    // SAFETY: used as the headers say.
    unsafe { PerfettoDsStopDone(stopper) };
    session.stop();
    assert!(!source.is_enabled());
}
