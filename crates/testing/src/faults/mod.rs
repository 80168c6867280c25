//! Faults of the machine: runs a program and lets one of its system calls fail.
//!
//! The program is traced with ptrace, and a seccomp filter stops it at the calls that can fail, so
//! programs with any library are covered, and calls without one. The calls of each kind are
//! counted; the n-th one is not made, and returns an error, or is made with half of its length, or
//! the program is killed before it.

mod calls;
mod fault;
mod filter;
mod registers;
mod tracer;

pub use calls::{Effect, Kind};
pub use fault::Fault;
pub use tracer::{End, Outcome, Run};

/// Returns true if programs can be traced here.
pub fn are_possible() -> bool {
    cfg!(target_arch = "x86_64")
        && Run::new(std::process::Command::new("true"))
            .outcome()
            .is_ok_and(|outcome| outcome.end == End::Exited(0))
}
