//! Dropping privileges that a daemon does not need.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs,
};

/// The capabilities that the profiler needs: events of all CPUs, rings of any size, maps, memory
/// and mapped files of every process, kernel symbols, and a higher priority than the profiled
/// programs.
pub(crate) const OF_PROFILER: CapabilitySet = CapabilitySet::PERFMON
    .union(CapabilitySet::IPC_LOCK)
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::CHECKPOINT_RESTORE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::SYSLOG)
    .union(CapabilitySet::SYS_NICE);

/// Drops all other capabilities of this thread and of the threads that it starts from now on, for
/// good.
///
/// # Errors
///
/// Fails if the kernel refuses.
pub(crate) fn keep_only(needed: CapabilitySet) -> io::Result<()> {
    let held = capabilities(None)?;
    // Kernels before 5.8 have no capability for perf events.
    let needed = if held.permitted.contains(CapabilitySet::PERFMON) {
        needed
    } else {
        needed | CapabilitySet::SYS_ADMIN
    };
    let kept = held.permitted & needed;
    set_no_new_privs(true)?;
    set_capabilities(
        None,
        CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: CapabilitySet::empty(),
        },
    )?;
    Ok(())
}

/// Raises the soft limit of descriptors to the hard limit, since each profiled process needs
/// several.
pub(crate) fn allow_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    // A lower limit works, too.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    );
}
