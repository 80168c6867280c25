//! The memory that reading may take.

pub(crate) use ferretto_format::budget::{Budget, entry_bytes};

/// Largest packet that is read at all; a longer length can only be damage.
pub const MAX_PACKET_BYTES: u64 = 512 << 20;

/// The memory that one reader may take, for any file.
///
/// A part of it is for the packet at hand, a part for unpacking, and the largest part is for
/// tables. Entries beyond it are left out and counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    memory: u64,
}

impl Default for Limits {
    /// 256 MiB.
    fn default() -> Self {
        Self { memory: 256 << 20 }
    }
}

impl Limits {
    /// The least that a reader gets by on.
    pub const MIN_MEMORY: u64 = 16 << 20;

    /// Limits for this many bytes in all, and at least [`MIN_MEMORY`](Self::MIN_MEMORY).
    pub fn memory(bytes: u64) -> Self {
        Self {
            memory: bytes.max(Self::MIN_MEMORY),
        }
    }

    /// Limits for one of two readers at a time.
    #[must_use]
    pub fn half(self) -> Self {
        Self::memory(self.memory / 2)
    }

    /// The largest packet that is read. There may be two at a time, one inside the other.
    pub fn packet_bytes(self) -> u64 {
        (self.memory / 16).min(MAX_PACKET_BYTES)
    }

    /// The largest window of Zstandard. There may be two at a time, one inside the other.
    pub(crate) fn window_bytes(self) -> u64 {
        (self.memory / 16).min(1 << 30)
    }

    /// Lines that wait for earlier ones.
    pub(crate) fn waiting_bytes(self) -> usize {
        usize::try_from(self.memory / 2).unwrap_or(usize::MAX)
    }

    /// All tables of a reader together.
    pub(crate) fn budget(self) -> Budget {
        let bytes = usize::try_from(self.memory / 16 * 9).unwrap_or(usize::MAX);
        Budget::new(bytes)
    }
}

/// That of a reader within the default limits.
pub(crate) fn default_budget() -> Budget {
    Limits::default().budget()
}
