//! Error messages and exit codes.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | success; also if the reader of the output has ended (broken pipe) |
//! | 1 | failure, with a message on standard error |
//! | 2 | the command line is wrong |
//! | 3 | success, but a part of the trace could not be read or shown, with a message on standard error |
//! | 3 | `doctor`: a check failed |
//! | 1, 2 | `assert`: a rule is broken; a rule cannot be judged |
//! | 126, 127 | `record -- COMMAND`: the command cannot be run, or was not found |
//! | 128 + n | `record -- COMMAND`: the command was ended by signal n |
//!
//! Otherwise, `record -- COMMAND` returns the exit code of the command. The upstream-compatible
//! programs have upstream's codes.

use std::io;
use std::process::ExitCode;

use ferretto_text::terminal::shown_lines;

use crate::messages;

/// Wrong command line.
pub(crate) const USAGE: u8 = 2;
/// Done with the readable part of a trace.
pub(crate) const DAMAGED: u8 = 3;
/// A command cannot be run, as in shells.
pub(crate) const CANNOT_RUN: u8 = 126;
/// A command was not found, as in shells.
pub(crate) const NOT_FOUND: u8 = 127;

/// Prints an error and returns its exit code.
pub(crate) fn report(program: &str, error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    messages::tell_error(program, &message(error));
    ExitCode::FAILURE
}

/// Formats an error and its causes in one line, without error numbers.
pub(crate) fn message(error: &anyhow::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    for cause in error.chain() {
        let part = without_numbers(&cause.to_string());
        // Some errors already end with the text of their cause.
        if !parts.last().is_some_and(|last| last.ends_with(&part)) {
            parts.push(part);
        }
    }
    // Causes may repeat each other.
    shown_lines(&parts.join(": "))
}

/// Returns the system's message without the error number.
pub(crate) fn reason(error: &io::Error) -> String {
    without_numbers(&error.to_string())
}

/// Removes error numbers from a message.
pub(crate) fn without_numbers(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(" (os error ") {
        kept.push_str(before);
        match after.split_once(')') {
            Some((_, after)) => rest = after,
            None => return text.to_owned(),
        }
    }
    kept + rest
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_no_numbers_and_no_repetition() {
        let cause = io::Error::from_raw_os_error(2);
        let text = format!("cannot connect: {cause}; nothing done");
        assert_eq!(
            without_numbers(&text),
            "cannot connect: No such file or directory; nothing done"
        );
        let error = anyhow::Error::new(io::Error::from_raw_os_error(2))
            .context("cannot open x: No such file or directory (os error 2)")
            .context("cannot start");
        assert_eq!(
            message(&error),
            "cannot start: cannot open x: No such file or directory"
        );
    }
}
