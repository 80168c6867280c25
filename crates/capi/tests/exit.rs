//! The end of a process whose main thread has written packets: the program's state of this thread
//! is not freed, because the callbacks may use statics that are already destroyed. Has its own
//! `main`.

#[path = "it/common/mod.rs"]
mod common;

use std::ffi::c_void;
use std::process::{Command, ExitCode};
use std::ptr;

use common::{Source, init, text};
use ferretto_c::*;

/// The first argument of the ending process.
const ENDS: &str = "ends";

unsafe extern "C" fn create(
    _: *mut PerfettoDsImpl,
    _: u32,
    _: *mut c_void,
    _: *mut c_void,
) -> *mut c_void {
    ptr::dangling_mut::<u64>().cast()
}

unsafe extern "C" fn delete(_: *mut c_void) {
    println!("deleted");
}

fn program() {
    init();
    let source = Source::register("exit", |ds| {
        // SAFETY: by the contract of the headers.
        unsafe {
            PerfettoDsSetOnCreateTls(ds, Some(create));
            PerfettoDsSetOnDeleteTls(ds, Some(delete));
            PerfettoDsSetOnCreateIncr(ds, Some(create));
            PerfettoDsSetOnDeleteIncr(ds, Some(delete));
        }
    });
    let session = Source::record("exit");
    assert_eq!(source.write(&text("of a thread that ends")), 1);
    std::thread::spawn(move || source.write(&text("of another one")))
        .join()
        .unwrap();
    // Stopped, but the main thread does not notice without a further trace point.
    session.stop();
}

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some(ENDS) => program(),
        Some("--list") => {}
        _ => {
            let this = std::env::current_exe().unwrap();
            let output = Command::new(this).arg(ENDS).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            // The states of the other thread, at its end.
            assert_eq!(
                String::from_utf8_lossy(&output.stdout),
                "deleted\ndeleted\n"
            );
        }
    }
    ExitCode::SUCCESS
}
