//! Messages for people on standard error.
//!
//! These macros are used in place of those of the same names: they never panic, so that a program
//! goes on if nobody can read its messages (a full disk below a log), and they write each message
//! in one piece.

use std::fmt;
use std::io::Write;

macro_rules! eprint {
    ($($message:tt)*) => { $crate::messages::tell(format_args!($($message)*)) };
}

macro_rules! eprintln {
    ($($message:tt)*) => { $crate::messages::tell_line(format_args!($($message)*)) };
}

/// Prints a message without the end of the line. Colours are left out where they are not shown.
pub(crate) fn tell(message: fmt::Arguments<'_>) {
    let message = message.to_string();
    // There is no other way to report that the message cannot be written.
    let _ = anstream::stderr().lock().write_all(message.as_bytes());
}

/// Prints a message. Colours are left out where they are not shown.
pub(crate) fn tell_line(message: fmt::Arguments<'_>) {
    tell(format_args!("{message}\n"));
}
