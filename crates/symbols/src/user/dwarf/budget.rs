//! The budget of a file, and its possible problems.

use std::cell::Cell;
use std::time::{Duration, Instant};

use ferretto_elf::ElfError;
use thiserror::Error;

/// The largest number of entries, attributes and rows to read in a file: about ten times the need
/// of a few thousand addresses of the largest known programs.
const STEPS: u64 = 1 << 30;
/// The largest time for a file.
const TIME: Duration = Duration::from_secs(30);
/// The number of steps between two checks of the time.
const STRIDE: u64 = 1 << 16;

/// The reason why debug information cannot be used.
#[derive(Debug, Error)]
pub(in crate::user) enum Problem {
    #[error("debug information is damaged: {0}")]
    Malformed(#[from] gimli::Error),
    #[error("debug information cannot be read: {0}")]
    Unreadable(#[from] ElfError),
    #[error("debug information is damaged: {0}")]
    Inconsistent(&'static str),
    #[error("debug information takes too long to read")]
    TooMuch,
}

/// The remaining budget.
#[derive(Debug)]
pub(in crate::user) struct Budget {
    steps: Cell<u64>,
    /// The number of steps at the next check of the time.
    next: Cell<u64>,
    end: Instant,
}

impl Budget {
    pub(in crate::user) fn new() -> Self {
        Self {
            steps: Cell::new(0),
            next: Cell::new(STRIDE),
            end: Instant::now() + TIME,
        }
    }

    /// Spends steps.
    pub(super) fn spend(&self, steps: u64) -> Result<(), Problem> {
        let done = self.steps.get().saturating_add(steps);
        self.steps.set(done);
        if done < self.next.get() {
            return Ok(());
        }
        self.next.set(done + STRIDE);
        if done > STEPS || Instant::now() > self.end {
            return Err(Problem::TooMuch);
        }
        Ok(())
    }
}
