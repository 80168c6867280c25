//! Causes and callstacks in words, for terminals.

use ferretto_text::terminal::shown;
use ferretto_why::{Cause, ExplainedWait, Function, Why};

/// Returns a cause in words.
pub(super) fn of_cause(why: &Why<'_>, cause: Cause) -> String {
    shown(&why.phrase(cause)).into_owned()
}

/// Returns a wait in words.
pub(super) fn of_wait(why: &Why<'_>, wait: &ExplainedWait) -> String {
    shown(&why.phrase_of_wait(wait)).into_owned()
}

/// Returns the name of a system call without its prefix.
pub(super) fn call(name: &str) -> String {
    shown(name.strip_prefix("sys_").unwrap_or(name)).into_owned()
}

/// The number of functions of a program that are shown with a wait.
const MAX_OF_PROGRAM: usize = 8;

/// Returns the callstack of a wait: the functions of the program, and the one of the kernel in
/// which it waited.
pub(super) fn waiting_stack(functions: &[Function]) -> String {
    let of_program = functions.iter().filter(|function| !function.is_kernel);
    let of_program: Vec<Function> = of_program.cloned().collect();
    match functions.first() {
        Some(first) if first.is_kernel && !of_program.is_empty() => {
            let program = stack(&of_program, MAX_OF_PROGRAM);
            format!("{program} > {}", shown(&first.name))
        }
        _ => stack(functions, MAX_OF_PROGRAM),
    }
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
