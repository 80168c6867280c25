//! The limits of readers.

use std::collections::HashMap;

pub(crate) use ferretto_format::budget::{Budget, entry_bytes};
use ferretto_format::decompression::DecompressionBudget;

/// The largest packet that is ever read; a larger length indicates damage.
pub const MAX_PACKET_BYTES: u64 = 512 << 20;

/// A map whose keys are numbers of the trace, looked up for each event.
///
/// It costs a fifth of the standard map's time. The seed is random, so that a trace cannot be made
/// of keys that collide.
pub(crate) type EventMap<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// The limits of one reader, for any file: of its memory, and of the data that the file is
/// decompressed to.
///
/// One part of the memory is for the current packet, one for decompression, and the largest one for
/// tables. Entries that exceed it are left out and counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    memory: u64,
    decompressed: Option<u64>,
}

impl Default for Limits {
    /// Returns a memory limit of 256 MiB, and the default [`DecompressionBudget`].
    fn default() -> Self {
        Self::memory(256 << 20)
    }
}

impl Limits {
    /// The minimum memory of a reader.
    pub const MIN_MEMORY: u64 = 16 << 20;

    /// Creates limits with a total of `bytes`, and at least [`MIN_MEMORY`](Self::MIN_MEMORY).
    pub fn memory(bytes: u64) -> Self {
        Self {
            memory: bytes.max(Self::MIN_MEMORY),
            decompressed: None,
        }
    }

    /// Limits the decompressed data to this many bytes, or to the default.
    #[must_use]
    pub fn with_decompressed(self, bytes: Option<u64>) -> Self {
        Self {
            decompressed: bytes,
            ..self
        }
    }

    /// Returns the limit of decompressed data, unless it is the default.
    pub fn decompressed_bytes(self) -> Option<u64> {
        self.decompressed
    }

    /// Returns the budget of the decompressed data of one file.
    pub fn decompression_budget(self) -> DecompressionBudget {
        DecompressionBudget::new(self.decompressed)
    }

    /// Returns the memory in bytes.
    pub fn memory_bytes(self) -> u64 {
        self.memory
    }

    /// Returns the limits of one of two simultaneous readers.
    #[must_use]
    pub fn half(self) -> Self {
        Self::memory(self.memory / 2).with_decompressed(self.decompressed)
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
    pub fn budget(self) -> Budget {
        let bytes = usize::try_from(self.memory / 16 * 9).unwrap_or(usize::MAX);
        Budget::new(bytes)
    }
}

/// Returns the budget of a reader with the default limits.
pub(crate) fn default_budget() -> Budget {
    Limits::default().budget()
}
