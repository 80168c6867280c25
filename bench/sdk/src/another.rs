//! This program once more, for what can be measured only once in a process.

use std::process::Command;

/// Returns the output of this program when it is started with these arguments.
pub(crate) fn output(arguments: &[&str]) -> String {
    let output = std::env::current_exe()
        .and_then(|program| Command::new(program).args(arguments).output())
        .expect("this program can be run");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
