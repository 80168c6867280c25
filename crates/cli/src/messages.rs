//! Messages on standard error: text for people, or JSON lines for programs.
//!
//! These macros are used in place of those of the same names: they never panic, so that a program
//! goes on if nobody can read its messages (a full disk below a log), and they write each message
//! in one piece. With [`use_json`], each message is a line that `docs/schema/message.json`
//! describes.

use std::fmt;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::json::{self, Members};

macro_rules! eprint {
    ($($message:tt)*) => { $crate::messages::tell(format_args!($($message)*)) };
}

macro_rules! eprintln {
    ($($message:tt)*) => { $crate::messages::tell_line(format_args!($($message)*)) };
}

/// The beginning of messages for people.
const NAME: &str = "ferretto: ";

static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Prints all further messages as JSON lines.
pub(crate) fn use_json() {
    IS_JSON.store(true, Ordering::Relaxed);
}

/// Returns true if messages are JSON lines.
pub(crate) fn is_json() -> bool {
    IS_JSON.load(Ordering::Relaxed)
}

/// Prints a message without the end of the line. Colours are left out where they are not shown.
pub(crate) fn tell(message: fmt::Arguments<'_>) {
    if is_json() {
        return event_of("note", &message.to_string());
    }
    write(&message.to_string());
}

/// Prints a message. Colours are left out where they are not shown.
pub(crate) fn tell_line(message: fmt::Arguments<'_>) {
    if is_json() {
        return event_of("note", &message.to_string());
    }
    write(&format!("{message}\n"));
}

/// Prints the reason of a failure.
pub(crate) fn tell_error(program: &str, reason: &str) {
    if is_json() {
        return event_of("error", reason);
    }
    tell_line(format_args!("{program}: {reason}"));
}

/// Prints an event, for programs.
pub(crate) fn tell_event(event: &str, members: impl FnOnce(&mut Members<'_>)) {
    write(&json::answer(|all| {
        all.add("event", event);
        members(all);
    }));
}

fn event_of(event: &str, text: &str) {
    let text = text.trim();
    let text = text.strip_prefix(NAME).unwrap_or(text);
    if !text.is_empty() {
        tell_event(event, |all| all.add("text", text));
    }
}

fn write(text: &str) {
    // There is no other way to report that the message cannot be written.
    let _ = anstream::stderr().lock().write_all(text.as_bytes());
}
