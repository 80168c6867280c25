//! The reasons for which a config is refused.

use std::fmt;

use ferretto_heap::ring;

/// The reason why a data source is not started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    Malformed,
    Lengths,
    ZeroInterval,
    Glob(String),
    NoTarget,
    InstalledBy,
    Streaming,
    RingSize(u64),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("heapprofd_config is malformed"),
            Self::Lengths => f.write_str(
                "heap_sampling_intervals and heaps have different lengths; give each heap an interval, or remove \
                 the intervals",
            ),
            Self::ZeroInterval => f.write_str(
                "a sampling interval is 0; set sampling_interval_bytes (1 records each byte)",
            ),
            Self::Glob(pattern) => write!(
                f,
                "process_cmdline {pattern:?} has a *, which needs no_startup: true and no no_running"
            ),
            Self::NoTarget => f.write_str(
                "no process is named; set process_cmdline, pid or all in heapprofd_config",
            ),
            Self::InstalledBy => f.write_str(
                "target_installed_by needs Android's packages; select processes by process_cmdline or pid",
            ),
            Self::Streaming => f.write_str(
                "stream_allocations is not supported; use sampling_interval_bytes: 1 to record each allocation",
            ),
            Self::RingSize(size) => write!(
                f,
                "shmem_size_bytes {size} is not a power of two from {} to {}",
                ring::MIN_SIZE,
                ring::MAX_SIZE
            ),
        }
    }
}
