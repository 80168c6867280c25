//! Counts of problems.

use std::collections::BTreeMap;

/// The number of occurrences of each problem of a type such as
/// [`events::Problem`](crate::events::Problem).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems<P>(BTreeMap<P, u64>);

impl<P> Default for Problems<P> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<P: Ord + Copy> Problems<P> {
    /// Returns the number of occurrences of a problem.
    pub fn count(&self, problem: P) -> u64 {
        self.0.get(&problem).copied().unwrap_or(0)
    }

    /// Returns true if there was no problem.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns all problems that occurred, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (P, u64)> + '_ {
        self.0.iter().map(|(problem, count)| (*problem, *count))
    }

    pub(crate) fn add(&mut self, problem: P) {
        *self.0.entry(problem).or_default() += 1;
    }
}
