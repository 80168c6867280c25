//! Slices, moments and values of counters.

use crate::decode::{CounterValue, Value};

/// The kind of a [`Node`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// Something that took time.
    Slice,
    /// A moment.
    Instant,
    /// A value of a counter.
    Counter,
}

/// A slice, a moment or a value of a counter.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Node {
    /// Its kind.
    pub kind: NodeKind,
    /// Its categories.
    pub categories: Vec<String>,
    /// Its name; that of the track for values of counters. Empty if it has none.
    pub name: String,
    /// When it began, in nanoseconds on the clock of the recording.
    pub begin: u64,
    /// When it ended; `None` if it had not by the end of the recording.
    pub end: Option<u64>,
    /// Everything that is attached to it, at its beginning and its end.
    pub arguments: Vec<(String, Value)>,
    /// The flows that go through it.
    pub flows: Vec<u64>,
    /// The flows that end in it.
    pub terminating_flows: Vec<u64>,
    /// The value of a counter.
    pub value: Option<CounterValue>,
    /// Everything that happened within it, on the same track.
    pub children: Vec<Self>,
    /// The `TrackEvent` that began it, encoded, for everything else.
    pub encoded: Vec<u8>,
}

impl Node {
    /// The value attached under a name.
    pub fn argument(&self, name: &str) -> Option<&Value> {
        let mut arguments = self.arguments.iter();
        arguments
            .find(|(own, _)| own == name)
            .map(|(_, value)| value)
    }

    /// Returns how long it took, in nanoseconds, if it has ended.
    pub fn duration(&self) -> Option<u64> {
        self.end.map(|end| end.saturating_sub(self.begin))
    }

    /// This and everything within it, in the order of their beginnings.
    pub fn walk(&self) -> impl Iterator<Item = &Self> {
        let mut rest = vec![self];
        std::iter::from_fn(move || {
            let next = rest.pop()?;
            rest.extend(next.children.iter().rev());
            Some(next)
        })
    }
}
