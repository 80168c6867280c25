//! A limit of decompressed data, so that small files cannot keep a reader busy for long.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes that a file of any size may be decompressed to.
const ANY_FILE: u64 = 64 << 20;
/// The bytes that each byte of a larger file may be decompressed to. Traces are compressed to a
/// tenth of their size, rarely to a fiftieth.
const PER_BYTE: u64 = 128;
/// The least number of bytes that a packet counts as, since each takes time.
const LEAST_PACKET: u64 = 32;

/// The data that a file may be decompressed to, in all of its layers together: compressed packets,
/// compressed files, and files in archives. It is shared by its clones.
///
/// By default, it is 64 MiB, or 128 times the bytes read from the file if that is more.
#[derive(Debug, Clone)]
pub struct DecompressionBudget(Arc<Account>);

#[derive(Debug)]
struct Account {
    given: Option<u64>,
    read: AtomicU64,
    decompressed: AtomicU64,
}

/// The error of a reader that would exceed its [`DecompressionBudget`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecompressionLimit {
    /// The allowed number of bytes.
    pub bytes: u64,
}

impl DecompressionBudget {
    /// Creates the budget of a file: this many bytes, or those of the default.
    pub fn new(bytes: Option<u64>) -> Self {
        Self(Arc::new(Account {
            given: bytes,
            read: AtomicU64::new(0),
            decompressed: AtomicU64::new(0),
        }))
    }

    /// Counts bytes read from the file, before any decompression.
    pub fn add_read(&self, bytes: u64) {
        self.0.read.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts decompressed bytes.
    ///
    /// # Errors
    ///
    /// Fails if they exceed the budget.
    pub fn take(&self, bytes: u64) -> Result<(), DecompressionLimit> {
        let account = &self.0;
        let before = account.decompressed.fetch_add(bytes, Ordering::Relaxed);
        let allowed = account.given.unwrap_or_else(|| {
            let read = account.read.load(Ordering::Relaxed);
            read.saturating_mul(PER_BYTE).max(ANY_FILE)
        });
        if before.saturating_add(bytes) > allowed {
            return Err(DecompressionLimit { bytes: allowed });
        }
        Ok(())
    }

    /// Counts a packet of this many bytes, which are counted already, among decompressed data.
    ///
    /// # Errors
    ///
    /// Fails if it exceeds the budget.
    pub fn take_packet(&self, bytes: usize) -> Result<(), DecompressionLimit> {
        match LEAST_PACKET.checked_sub(bytes as u64) {
            Some(more) => self.take(more),
            None => Ok(()),
        }
    }
}

impl DecompressionLimit {
    /// Returns the limit that an error of a reader is about.
    pub fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }
}

impl fmt::Display for DecompressionLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mebibytes = self.bytes >> 20;
        write!(
            f,
            "it decompresses to more than the limit of {mebibytes} MiB; --max-unpacked allows more"
        )
    }
}

impl std::error::Error for DecompressionLimit {}

impl From<DecompressionLimit> for io::Error {
    fn from(limit: DecompressionLimit) -> Self {
        Self::other(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_grows_with_the_file_unless_it_is_given() {
        let budget = DecompressionBudget::new(None);
        assert!(budget.take(64 << 20).is_ok());
        let limit = budget.clone().take(1).expect_err("a byte too many");
        assert_eq!(limit.bytes, 64 << 20);
        budget.add_read(1 << 20);
        assert!(budget.take(63 << 20).is_ok());
        let given = DecompressionBudget::new(Some(10));
        given.add_read(1 << 20);
        assert!(given.take(10).is_ok() && given.take(1).is_err());
    }

    #[test]
    fn small_packets_count_as_more_than_their_bytes() {
        let budget = DecompressionBudget::new(Some(32));
        assert!(budget.take(2).is_ok() && budget.take_packet(2).is_ok());
        assert!(budget.take_packet(32).is_ok() && budget.take_packet(31).is_err());
    }

    #[test]
    fn errors_of_readers_name_the_limit() {
        let limit = DecompressionLimit { bytes: 64 << 20 };
        let error = io::Error::from(limit);
        assert_eq!(DecompressionLimit::of(&error), Some(limit));
        assert!(error.to_string().contains("64 MiB; --max-unpacked"));
        assert_eq!(DecompressionLimit::of(&io::Error::other("else")), None);
    }
}
