//! The memory limit of a state, and the step limit of each patch.

use crate::abort::Reason;

/// The accounted bytes of an entry of a message or list: its slot and its value. Two elements of 48
/// bytes in upstream's tree, so that limits for upstream's machine also suit this one, whose
/// entries are smaller.
pub(crate) const ENTRY: u64 = 96;

/// The steps allowed for each patch per entry of the state, so that programs can iterate over all
/// of it.
const STEPS_PER_ENTRY: u64 = 4;

/// Memory and steps, each with its limit.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    used: u64,
    limit: u64,
    /// The remaining steps of the patch.
    steps: u64,
    /// The steps of all patches.
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

    /// Returns the accounted bytes.
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// Returns the steps taken so far.
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

    /// Allows `steps` steps from now on, plus some for each entry of the state.
    pub(crate) fn allow(&mut self, steps: u64) {
        self.steps = steps.saturating_add(self.used / ENTRY * STEPS_PER_ENTRY);
    }

    /// Allows the steps for a newly decoded entry of the state.
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
