//! The C interface of Perfetto's client library, on [`ferretto`].
//!
//! The shared library, `libferretto_c.so`, exports the functions for programs compiled with
//! Perfetto's public headers, and can replace `libperfetto_c.so`. It supports two versions of the
//! interface at the same time: the one up to Perfetto 58, with `PerfettoStreamWriter`, and the one
//! after it, with `PerfettoPbMsgWriter`. The module [`caller`](self) distinguishes them.
//!
//! # Safety
//!
//! All functions have the contract of the C headers: pointers are valid, or null where that is
//! allowed; handles are from the functions that create them, and are not used after they are freed;
//! strings end with a zero byte. No function unwinds: a panic, which is a bug in this library, ends
//! the process with a message.
#![allow(non_snake_case, non_upper_case_globals)]
// The section on safety above applies to all functions.
#![allow(clippy::missing_safety_doc)]

mod abi;
mod caller;
mod clock;
mod data_source;
mod decoder;
mod flag;
mod gate;
mod heap_buffer;
mod producer;
mod reentrant;
mod session;
mod thread;
mod track_event;
mod variables;
mod writer;

use std::io::{self, Write as _};

pub use abi::*;
pub use clock::*;
pub use data_source::*;
pub use decoder::*;
pub use heap_buffer::*;
pub use producer::*;
pub use session::*;
pub use track_event::*;
pub use variables::*;
pub use writer::*;

/// Ends the process because of an incorrect call that cannot be handled.
fn abort(mistake: &str) -> ! {
    // A panic may not leave the library.
    let _ = writeln!(io::stderr(), "ferretto: {mistake}");
    std::process::abort();
}
