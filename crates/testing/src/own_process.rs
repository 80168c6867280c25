//! Tests that change the state of their process, and therefore run in a process of their own.

use std::process::Command;

/// The environment variable that a test's own process has. Its value is the name of the test.
const NAME: &str = "FERRETTO_TEST_IN_OWN_PROCESS";

/// Runs the rest of the test in a process of its own, which is this program with the test's name.
///
/// Belongs at the beginning of a test that changes the state of its process, for example by
/// registering data sources. Returns from the test when that process has ended, and fails if it
/// failed.
#[macro_export]
macro_rules! own_process {
    () => {
        fn marker() {}
        if $crate::run_in_own_process(std::any::type_name_of_val(&marker)) {
            return;
        }
    };
}

/// Runs the test with the function `marker` in a process of its own and returns true; returns
/// false in that process. Use [`own_process!`].
///
/// # Panics
///
/// Panics if the test fails in its process.
pub fn run_in_own_process(marker: &str) -> bool {
    // `program::module::test::marker`, where the harness knows `module::test`.
    let test = marker
        .split_once("::")
        .and_then(|(_, path)| path.rsplit_once("::"))
        .map(|(test, _)| test)
        .expect("a function in a test");
    if std::env::var_os(NAME).is_some_and(|name| name == *test) {
        return false;
    }
    let program = std::env::current_exe().expect("the path of this program");
    let output = Command::new(program)
        // Quiet, since otherwise the harness begins a line that the test's output continues.
        .args(["--exact", test, "--nocapture", "--quiet"])
        .env(NAME, test)
        .output()
        .expect("this program runs");
    // Through the harness, which shows it if the test fails.
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if !of_harness(line) {
            println!("{line}");
        }
    }
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success(),
        "the test's own process: {}",
        output.status
    );
    true
}

/// Returns true if the harness prints such a line in a run of one test.
fn of_harness(line: &str) -> bool {
    line.is_empty() || line == "." || line == "running 1 test" || line.starts_with("test result: ")
}
