//! Causes and callstacks in words, for terminals.

use ferretto_text::terminal::shown;
use ferretto_why::{Cause, Function, Why};

/// Returns a cause in words.
pub(super) fn of_cause(why: &Why<'_>, cause: Cause) -> String {
    shown(&why.phrase(cause)).into_owned()
}

/// Returns the name of a system call without its prefix.
pub(super) fn call(name: &str) -> String {
    shown(name.strip_prefix("sys_").unwrap_or(name)).into_owned()
}

/// Returns functions, the outermost first, at most this many of the innermost.
pub(super) fn stack(functions: &[Function], max: usize) -> String {
    let mut names: Vec<String> = functions
        .iter()
        .take(max)
        .map(|function| shown(&function.name).into_owned())
        .collect();
    if functions.len() > max {
        names.push("…".to_owned());
    }
    names.reverse();
    names.join(" > ")
}
