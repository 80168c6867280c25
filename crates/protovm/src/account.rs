//! The memory that a state may take, and the steps of each patch.

use crate::abort::Reason;

/// Bytes counted for an entry of a message or list: its place and its value. Two elements of 48
/// bytes in upstream's tree, so that limits that suit programs there suit them here; an entry takes
/// less here.
pub(crate) const ENTRY: u64 = 96;

/// Steps each patch may take for each entry of the state, so that programs may go through all of
/// it.
const STEPS_PER_ENTRY: u64 = 4;

/// Memory and steps, each with its bound.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    used: u64,
    limit: u64,
    /// Steps that are left to the patch.
    steps: u64,
    /// Steps that all patches took.
    taken: u64,
}

impl Account {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            used: 0,
            limit,
            steps: 0,
            taken: 0,
        }
    }

    /// Bytes counted now.
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// Steps taken until now.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    pub(crate) fn charge(&mut self, bytes: u64) -> Result<(), Reason> {
        let used = self.used.saturating_add(bytes);
        if used > self.limit {
            return Err(Reason::OutOfMemory);
        }
        self.used = used;
        Ok(())
    }

    pub(crate) fn release(&mut self, bytes: u64) {
        self.used = self.used.saturating_sub(bytes);
    }

    /// Allows so many steps from now on, and some for each entry of the state.
    pub(crate) fn allow(&mut self, steps: u64) {
        self.steps = steps.saturating_add(self.used / ENTRY * STEPS_PER_ENTRY);
    }

    /// Allows the steps of an entry that was only bytes until now.
    pub(crate) fn allow_entry(&mut self) {
        self.steps = self.steps.saturating_add(STEPS_PER_ENTRY);
    }

    pub(crate) fn step(&mut self, steps: u64) -> Result<(), Reason> {
        match self.steps.checked_sub(steps) {
            Some(left) => {
                self.steps = left;
                self.taken = self.taken.saturating_add(steps);
                Ok(())
            }
            None => {
                self.steps = 0;
                Err(Reason::TooManySteps)
            }
        }
    }
}
