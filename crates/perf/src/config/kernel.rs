//! The paths of the kernel's files.

use std::path::PathBuf;

/// The kernel's files that a plan reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// The possible mount points of tracefs; the first usable one is used.
    pub tracefs: Vec<PathBuf>,
    /// `/sys`.
    pub sysfs: PathBuf,
    /// `/proc`.
    pub procfs: PathBuf,
}

impl Default for Kernel {
    /// Returns the paths of this machine.
    fn default() -> Self {
        Self {
            tracefs: vec![
                PathBuf::from("/sys/kernel/tracing"),
                PathBuf::from("/sys/kernel/debug/tracing"),
            ],
            sysfs: PathBuf::from("/sys"),
            procfs: PathBuf::from("/proc"),
        }
    }
}
