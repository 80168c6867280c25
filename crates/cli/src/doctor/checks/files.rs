//! Disk space and file descriptors.

use std::env;
use std::path::Path;

use ferretto_text::amount::human_bytes;
use rustix::fs::{Access, access, statvfs};
use rustix::process::{Resource, getrlimit};

use super::super::check::Check;

/// The free space below which a recording of a minute may not fit.
const LITTLE_SPACE: u64 = 256 << 20;
/// The number of descriptors below which busy machines cannot be profiled.
const FEW_DESCRIPTORS: u64 = 1024;

/// Checks the current folder, where traces are written.
pub(super) fn disk() -> Check {
    let name = "this folder";
    let folder = env::current_dir().unwrap_or_else(|_| Path::new(".").to_owned());
    let shown = folder.display();
    if access(&folder, Access::WRITE_OK).is_err() {
        return Check::missing(name, format!("{shown} is not writable"))
            .so("recordings need -o FILE")
            .remedy("ferretto record -o /tmp/trace.pftrace");
    }
    let Ok(system) = statvfs(&folder) else {
        return Check::works(name, "is writable");
    };
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    let found = format!("{shown} has {} left", human_bytes(free));
    if free < LITTLE_SPACE {
        return Check::limited(name, found)
            .so("a recording of a few minutes does not fit")
            .remedy("ferretto record -o FILE on another disk");
    }
    Check::works(name, found)
}

/// Checks the limit of open files.
pub(super) fn descriptors() -> Check {
    let name = "open files";
    let limit = getrlimit(Resource::Nofile).maximum;
    match limit {
        Some(most) if most < FEW_DESCRIPTORS => Check::limited(name, format!("{most} at most"))
            .so("record --perf needs one for each thread and CPU")
            .remedy("ulimit -Hn 65536 as root, or LimitNOFILE= of the service"),
        Some(most) => Check::works(name, format!("{most} at most")),
        None => Check::works(name, "any number"),
    }
}
