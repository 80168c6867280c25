//! The C interface of Perfetto's client library, on [`ferretto`].
//!
//! The shared library, `libferretto_c.so`, exports what programs import that were compiled with
//! Perfetto's public headers, and can take the place of `libperfetto_c.so` by name. Two versions of
//! the interface are served at the same time: the one up to Perfetto 58, with
//! `PerfettoStreamWriter`, and the one after it, with `PerfettoPbMsgWriter`; see [`caller`](self)
//! in the source for how they are told apart.
//!
//! # Safety
//!
//! All functions take and return what the C headers say: pointers are valid, or null where that is
//! allowed; handles come from the functions that make them and are not used after those that free
//! them; strings end with a zero byte. Nothing unwinds out of a function: a panic, which would be a
//! fault in this library, ends the process with a message.
#![allow(non_snake_case, non_upper_case_globals)]
// One section on safety, above, is true of all functions.
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

/// Ends the process because of a mistake of the program's that it would not survive.
fn abort(mistake: &str) -> ! {
    eprintln!("ferretto: {mistake}");
    std::process::abort();
}
