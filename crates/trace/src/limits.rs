//! The memory limits of readers.

pub(crate) use ferretto_format::budget::{Budget, entry_bytes};

/// The largest packet that is ever read; a larger length indicates damage.
pub const MAX_PACKET_BYTES: u64 = 512 << 20;

/// The memory limit of one reader, for any file.
///
/// One part is for the current packet, one for decompression, and the largest one for tables.
/// Entries that exceed it are left out and counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    memory: u64,
}

impl Default for Limits {
    /// Returns a limit of 256 MiB.
    fn default() -> Self {
        Self { memory: 256 << 20 }
    }
}

impl Limits {
    /// The minimum memory of a reader.
    pub const MIN_MEMORY: u64 = 16 << 20;

    /// Creates limits with a total of `bytes`, and at least [`MIN_MEMORY`](Self::MIN_MEMORY).
    pub fn memory(bytes: u64) -> Self {
        Self {
            memory: bytes.max(Self::MIN_MEMORY),
        }
    }

    /// Returns the limits of one of two simultaneous readers.
    #[must_use]
    pub fn half(self) -> Self {
        Self::memory(self.memory / 2)
    }

    /// Returns the largest packet that is read. Two can be in memory at a time, one inside the
    /// other.
    pub fn packet_bytes(self) -> u64 {
        (self.memory / 16).min(MAX_PACKET_BYTES)
    }

    /// Returns the largest Zstandard window. Two can be in memory at a time, one inside the other.
    pub(crate) fn window_bytes(self) -> u64 {
        (self.memory / 16).min(1 << 30)
    }

    /// Returns the limit of lines that are held back for sorting.
    pub(crate) fn waiting_bytes(self) -> usize {
        usize::try_from(self.memory / 2).unwrap_or(usize::MAX)
    }

    /// Returns the budget of all tables of a reader.
    pub(crate) fn budget(self) -> Budget {
        let bytes = usize::try_from(self.memory / 16 * 9).unwrap_or(usize::MAX);
        Budget::new(bytes)
    }
}

/// Returns the budget of a reader with the default limits.
pub(crate) fn default_budget() -> Budget {
    Limits::default().budget()
}
