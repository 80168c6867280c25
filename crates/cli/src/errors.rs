//! How failures are shown and what the process returns.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done; a reader that went away (broken pipe) counts as done |
//! | 1 | something failed, said on standard error |
//! | 2 | the command line is wrong |
//! | 126, 127 | `record -- COMMAND`: it cannot be run, it was not found |
//! | 128 + n | `record -- COMMAND`: it was ended by signal n |
//!
//! `record -- COMMAND` otherwise returns what the command returned. The upstream-compatible programs have upstream's
//! codes.

use std::io;
use std::process::ExitCode;

/// Wrong command line.
pub(crate) const USAGE: u8 = 2;

/// Shows an error and turns it into an exit code.
pub(crate) fn report(program: &str, error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    anstream::eprintln!("{program}: {}", message(error));
    ExitCode::FAILURE
}

/// The error and its causes in one line, without the numbers the system adds.
pub(crate) fn message(error: &anyhow::Error) -> String {
    let causes = error
        .chain()
        .map(|cause| match cause.downcast_ref::<io::Error>() {
            Some(error) => reason(error),
            None => cause.to_string(),
        });
    let mut parts: Vec<String> = Vec::new();
    for part in causes {
        // Some errors already end with the text of their cause.
        if !parts.last().is_some_and(|last| last.ends_with(&part)) {
            parts.push(part);
        }
    }
    parts.join(": ")
}

/// What the system said, without the error number.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error ") {
        Some((text, _)) => text.to_owned(),
        None => text,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
