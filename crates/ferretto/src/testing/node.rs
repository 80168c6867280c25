//! Slices, instants and counter values.

use crate::decode::{CounterValue, Value};

/// The kind of a [`Node`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A slice.
    Slice,
    /// An instant.
    Instant,
    /// A counter value.
    Counter,
}

/// A slice, an instant or a counter value.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Node {
    /// Its kind.
    pub kind: NodeKind,
    /// Its categories.
    pub categories: Vec<String>,
    /// Its name, which for counter values is that of the track. Empty if it has none.
    pub name: String,
    /// The begin, in nanoseconds on the clock of the recording.
    pub begin: u64,
    /// The end; `None` if the slice was still open at the end of the recording.
    pub end: Option<u64>,
    /// The arguments of its begin and its end.
    pub arguments: Vec<(String, Value)>,
    /// The ids of its flows.
    pub flows: Vec<u64>,
    /// The ids of the flows that end at it.
    pub terminating_flows: Vec<u64>,
    /// The value, for counters.
    pub value: Option<CounterValue>,
    /// The events within it, on the same track.
    pub children: Vec<Self>,
    /// The encoded `TrackEvent` of its begin, for other fields.
    pub encoded: Vec<u8>,
}

impl Node {
    /// Returns the argument with this name.
    pub fn argument(&self, name: &str) -> Option<&Value> {
        let mut arguments = self.arguments.iter();
        arguments
            .find(|(own, _)| own == name)
            .map(|(_, value)| value)
    }

    /// Returns the duration in nanoseconds, if it has ended.
    pub fn duration(&self) -> Option<u64> {
        self.end.map(|end| end.saturating_sub(self.begin))
    }

    /// Iterates over this event and all events within it, in the order of their begins.
    pub fn walk(&self) -> impl Iterator<Item = &Self> {
        let mut rest = vec![self];
        std::iter::from_fn(move || {
            let next = rest.pop()?;
            rest.extend(next.children.iter().rev());
            Some(next)
        })
    }
}
