//! The outputs of programs.
//!
//! - [`write`] and [`write_private`] write a file that is never incomplete, and never another
//!   user's.
//! - [`Folder`] is a folder that gets its name once it is complete.
//! - [`printable`] and [`Printable`] keep texts of a trace from controlling a terminal.
#![forbid(unsafe_code)]

mod file;
mod folder;
mod ignored;
mod printable;
mod unfinished;

pub use ferretto_client::destination::{Destination, RegularFile, SpecialFile};
pub use file::{
    append_to, check_replaced, check_standard_output, create, is_locked, is_standard,
    is_standard_output, lock, refuse_inputs, write, write_private,
};
pub use folder::Folder;
pub use ignored::is_ignored;
pub use printable::{Printable, printable};
pub use unfinished::leave_signals;
