//! Faults of the machine: for each command, runs in which one system call fails.
//!
//! A run without faults counts the calls of the command. In the other runs, the n-th call of a kind
//! returns an error (a full disk, a failing one, no descriptors, no memory, an interruption), or
//! takes only half of its bytes, or the command is killed before it. After each run:
//!
//! * the command has ended in time, without a panic and not by a signal;
//! * a file that was there before is whole, or was replaced by a whole one;
//! * the files that were written open;
//! * a trace that lacks events does not claim that no data was lost.
//!
//! An ordinary test makes a few runs of each command, which `FAULT_SEED` chooses. `FAULT_RUNS=n`
//! makes n, `FAULT_RUNS=all` all of them, and `FAULT='write 17 ENOSPC'` one. `FAULT_JOBS=8` makes
//! eight at a time: most of them wait.

mod daemons;
mod files;
mod judge;
mod plan;
mod program;
mod record;
mod world;

/// The program that is recorded, in a process of its own.
#[test]
fn program_main() {
    program::main();
}

#[test]
fn a_program_that_does_not_exist_is_an_error() {
    use ferretto_testing::faults::Run;
    use std::process::Command;

    for program in ["/none/of/these", "none-of-these", "/etc/passwd"] {
        let error = Run::new(Command::new(program)).outcome();
        let error = error.expect_err("it cannot run").to_string();
        assert!(error.contains(program), "{error}");
    }
}
