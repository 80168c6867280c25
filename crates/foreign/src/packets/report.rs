//! Statistics of an import.

use std::collections::BTreeMap;

use crate::Format;

/// Counts of the parts of a file that are missing or incomplete in the trace, by description.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Losses(BTreeMap<String, u64>);

impl Losses {
    /// Counts one part.
    pub(crate) fn add(&mut self, what: &str) {
        self.add_many(what, 1);
    }

    /// Counts several parts.
    pub(crate) fn add_many(&mut self, what: &str, count: u64) {
        /// Further descriptions are counted together.
        const MAX_KINDS: usize = 64;
        if count == 0 {
            return;
        }
        match self.0.get_mut(what) {
            Some(number) => *number += count,
            None => {
                let is_full = self.0.len() >= MAX_KINDS;
                let what = if is_full { "others" } else { what };
                *self.0.entry(what.to_owned()).or_default() += count;
            }
        }
    }

    /// Returns each description with its count.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(what, count)| (what.as_str(), *count))
    }
}

/// Statistics of the import of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The format of the file.
    pub format: Format,
    /// The number of events written to the trace.
    pub events: u64,
    /// The number of callstack samples written to the trace.
    pub samples: u64,
    /// The parts of the file that are missing or incomplete in the trace.
    pub losses: Losses,
    /// True if the trace lacks data of the file: it is damaged or truncated, or has events that
    /// cannot be read.
    pub is_damaged: bool,
}

impl Report {
    pub(crate) fn new(format: Format) -> Self {
        Self {
            format,
            events: 0,
            samples: 0,
            losses: Losses::default(),
            is_damaged: false,
        }
    }
}
