//! The paths of the kernel's files.

use std::path::PathBuf;

/// The kernel's files that a plan reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// Places where tracefs may be mounted; the first usable one counts.
    pub tracefs: Vec<PathBuf>,
    /// `/sys`.
    pub sysfs: PathBuf,
    /// `/proc`.
    pub procfs: PathBuf,
}

impl Default for Kernel {
    /// This machine's.
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
