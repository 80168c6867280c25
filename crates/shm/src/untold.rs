//! Losses that nobody has told of yet.

use crate::primitive::{Mutex, lock};
use crate::startup::Target;

/// Writers that have lost packets and not reported that yet, with their targets.
#[derive(Debug, Default)]
pub(crate) struct Untold(Mutex<Vec<(u16, Target)>>);

impl Untold {
    /// A writer has lost something.
    pub(crate) fn add(&self, writer: u16, target: Target) {
        let mut untold = lock(&self.0);
        if !untold.contains(&(writer, target)) {
            untold.push((writer, target));
        }
    }

    /// A writer goes on, and says it itself.
    pub(crate) fn remove(&self, writer: u16) {
        lock(&self.0).retain(|(untold, _)| *untold != writer);
    }

    /// Takes all of them.
    pub(crate) fn take(&self) -> Vec<(u16, Target)> {
        std::mem::take(&mut lock(&self.0))
    }
}
