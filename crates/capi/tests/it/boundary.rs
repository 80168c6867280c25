//! Panics do not unwind into programs.

use std::os::unix::process::ExitStatusExt;
use std::panic::AssertUnwindSafe;

use crate::common::{case, run_again};
use ferretto_c::*;

const SIGABRT: i32 = 6;

#[test]
fn sdk_043_a_panic_in_the_library_ends_the_process_with_a_message() {
    ferretto_testing::own_process!();
    if case().is_some() {
        // SAFETY: deliberately violated, with an impossible amount of memory.
        unsafe {
            let mut writer = std::mem::MaybeUninit::<PerfettoPbMsgWriter>::uninit();
            PerfettoHeapBufferCreate(writer.as_mut_ptr());
            let stream = &raw mut (*writer.as_mut_ptr()).stream;
            let caught = std::panic::catch_unwind(AssertUnwindSafe(|| {
                PerfettoStreamWriterReserveBytesSlowpath(stream, usize::MAX / 2 + 1);
            }));
            panic!("came back: {}", caught.is_err());
        }
    }
    let test = "boundary::sdk_043_a_panic_in_the_library_ends_the_process_with_a_message";
    let (status, errors) = run_again(test, "1");
    assert_eq!(status.signal(), Some(SIGABRT), "{errors}");
    assert!(errors.contains("capacity overflow"), "{errors}");
    assert!(!errors.contains("came back"), "{errors}");
}
