//! The budget of one file, and the problems it can have.

use std::cell::Cell;
use std::time::{Duration, Instant};

use ferretto_elf::ElfError;
use thiserror::Error;

/// Entries, attributes and rows that are looked at in one file: some ten times as many as are
/// needed to name a few thousand addresses of the largest programs known.
const STEPS: u64 = 1 << 30;
/// Time for one file.
const TIME: Duration = Duration::from_secs(30);
/// Steps between two looks at the clock.
const STRIDE: u64 = 1 << 16;

/// Why debug information could not be used.
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

/// The rest of a budget.
#[derive(Debug)]
pub(in crate::user) struct Budget {
    steps: Cell<u64>,
    /// Steps at which the clock is looked at next.
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
