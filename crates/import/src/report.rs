//! The account of an import.

use std::collections::BTreeMap;

use ferretto_formats::Format;

/// The parts of a file that a trace has no place for, or that say too little, by what they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Left(BTreeMap<String, u64>);

impl Left {
    /// Counts one.
    pub(crate) fn add(&mut self, what: &str) {
        self.add_many(what, 1);
    }

    /// Counts several.
    pub(crate) fn add_many(&mut self, what: &str, count: u64) {
        /// Kinds beyond this number are counted together.
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

    /// Returns each kind with its number.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(what, count)| (what.as_str(), *count))
    }
}

/// The account of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The format of the file.
    pub format: Format,
    /// Events of the file that are in the trace.
    pub events: u64,
    /// Samples of callstacks that are in the trace.
    pub samples: u64,
    /// Parts that are not in the trace, or not whole.
    pub left: Left,
}

impl Report {
    pub(crate) fn new(format: Format) -> Self {
        Self {
            format,
            events: 0,
            samples: 0,
            left: Left::default(),
        }
    }
}
