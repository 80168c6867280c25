//! Signals that this process has ignored since its start, as under `nohup`.

use std::fs;

/// Returns true if the signal is ignored; false if that is unknown. Call this before registering a
/// handler, after which the signal is not ignored any more.
pub fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
}
