//! The namespaces of this process (namespaces(7)).

use std::fs;
use std::os::unix::fs::MetadataExt as _;

/// The inode of the machine's first pid namespace, which is the same on every kernel.
const FIRST_PID_NAMESPACE: u64 = 0xeffffffc;

/// Returns true if this process is in a pid namespace below that of the machine, as in a container.
pub(crate) fn has_own_pids() -> bool {
    fs::metadata("/proc/self/ns/pid").is_ok_and(|file| file.ino() != FIRST_PID_NAMESPACE)
}
