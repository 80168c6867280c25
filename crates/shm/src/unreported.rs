//! Losses that were not reported yet.

use crate::primitive::{Mutex, lock};
use crate::startup::Target;

/// The writers with an unreported loss, and their targets.
#[derive(Debug, Default)]
pub(crate) struct UnreportedLosses(Mutex<Vec<(u16, Target)>>);

impl UnreportedLosses {
    /// Adds a writer that lost a packet.
    pub(crate) fn add(&self, writer: u16, target: Target) {
        let mut unreported = lock(&self.0);
        if !unreported.contains(&(writer, target)) {
            unreported.push((writer, target));
        }
    }

    /// Removes a writer that continues and reports its loss itself.
    pub(crate) fn remove(&self, writer: u16) {
        lock(&self.0).retain(|(unreported, _)| *unreported != writer);
    }

    /// Takes all writers.
    pub(crate) fn take(&self) -> Vec<(u16, Target)> {
        std::mem::take(&mut lock(&self.0))
    }
}
