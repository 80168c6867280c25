//! The CPUs before the start of the recorded command.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Runs this thread on each CPU once, so that each has a context switch before the command starts.
/// Context switches are recorded in a compact form that names only the thread that begins to run.
/// Readers cannot use the first one of a CPU, which would often be that of the command.
pub(super) fn visit() {
    let Ok(all) = sched_getaffinity(None) else {
        return;
    };
    for cpu in (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu)) {
        let mut one = CpuSet::new();
        one.set(cpu);
        // A CPU that is offline now runs no command either.
        let _ = sched_setaffinity(None, &one);
    }
    // Never fails: these CPUs were permitted before.
    let _ = sched_setaffinity(None, &all);
}
