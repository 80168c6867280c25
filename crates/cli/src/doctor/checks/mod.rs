//! The checks, by topic.

mod clock;
mod container;
mod files;
mod kernel;
mod profiler;
mod service;

use super::check::Check;

/// Runs all checks, the most important first.
pub(super) fn all() -> Vec<Check> {
    let mut checks = vec![kernel::version()];
    checks.extend(kernel::sources());
    checks.extend([kernel::probes(), container::container()]);
    checks.extend([container::process_ids(), container::control_groups()]);
    checks.extend([
        profiler::callstacks(),
        profiler::counters(),
        profiler::locked_memory(),
        profiler::kernel_names(),
        profiler::other_processes(),
    ]);
    checks.extend([service::system(), clock::events()]);
    checks.extend([files::disk(), files::descriptors()]);
    checks
}

/// Reads a file and trims its text; `None` if it cannot be read.
fn read(path: &str) -> Option<String> {
    let bytes = std::fs::read(path).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_owned())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
