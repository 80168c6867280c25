//! Dropping privileges that a daemon does not need.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs,
};

/// The capabilities that the profiler needs: events of all CPUs, rings of any size, maps and memory
/// of every process, the files that they have mapped, names of the kernel's functions, and to go
/// ahead of the programs that it looks at.
pub(crate) const OF_PROFILER: CapabilitySet = CapabilitySet::PERFMON
    .union(CapabilitySet::IPC_LOCK)
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::CHECKPOINT_RESTORE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::SYSLOG)
    .union(CapabilitySet::SYS_NICE);

/// Keeps of this thread's capabilities only these, for it and the threads it starts from now on,
/// and never gets others.
///
/// # Errors
///
/// If the kernel refuses.
pub(crate) fn keep_only(needed: CapabilitySet) -> io::Result<()> {
    let held = capabilities(None)?;
    // Kernels before 5.8 have no capability for events.
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

/// Lets this process have as many descriptors as it may: there are several for each process that is
/// looked at.
pub(crate) fn allow_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    // Fewer will do, too.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    );
}
