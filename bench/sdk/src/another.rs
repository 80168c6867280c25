//! Runs this program again, for measurements that a process can make only once.

use std::process::Command;

/// Returns the output of this program with these arguments.
pub(crate) fn output(arguments: &[&str]) -> String {
    let output = std::env::current_exe()
        .and_then(|program| Command::new(program).args(arguments).output())
        .expect("this program can be run");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
