//! The observed part of the machine.

use std::fs;

use super::Target;
use crate::config::Kernel;

/// The part of the machine to be observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All tasks of the plan's CPUs.
    Machine,
    /// All threads of some processes, and all threads and processes that they start from now on.
    /// Users may observe their own processes, without the kernel, unless the administrator has
    /// disabled perf events.
    Processes {
        /// The processes.
        pids: Vec<i32>,
        /// Set to count only after they execute a program: for a child that is about to.
        on_exec: bool,
    },
}

/// Returns the tasks to observe on one CPU.
pub(super) fn target_of<'a>(
    scope: &Scope,
    tids: &'a [i32],
    user_only: bool,
    cpu: u32,
) -> Target<'a> {
    match scope {
        Scope::Machine => Target::Cpu(cpu),
        Scope::Processes { on_exec, .. } => Target::Tasks {
            cpu,
            tids,
            on_exec: *on_exec,
            user_only,
        },
    }
}

/// Returns the threads of processes.
pub(super) fn threads(kernel: &Kernel, pids: &[i32]) -> Vec<i32> {
    let mut tids = Vec::new();
    for pid in pids {
        let entries = fs::read_dir(kernel.procfs.join(format!("{pid}/task")));
        let names = entries.into_iter().flatten().flatten();
        tids.extend(names.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()));
    }
    tids.sort_unstable();
    tids.dedup();
    tids
}
