//! The choices of users.

use std::fmt;
use std::sync::Arc;

use tracing_core::Metadata;

/// The tracks on which the slices of spans are.
///
/// A span that is not async is entered and left once, and looks the same with the first two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Spans {
    /// A slice each time the span is entered, on the track of the thread that enters it.
    #[default]
    Threads,
    /// As [`Spans::Threads`], with arrows from each slice of the span to the next, across threads.
    Flows,
    /// One slice, from when the span is first entered to when it is closed, on a track of its own;
    /// or on that of its parent, if it lies within the parent's slice and beside no other.
    Tracks,
}

/// The options of a layer.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) spans: Arc<dyn Fn(&Metadata<'static>) -> Spans + Send + Sync>,
    /// True if spans may have tracks of their own.
    pub(crate) has_tracks: bool,
    pub(crate) log_messages: bool,
    pub(crate) locations: bool,
    /// There is no other layer that might want spans that are not recorded.
    pub(crate) is_alone: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            spans: Arc::new(|_| Spans::Threads),
            has_tracks: false,
            log_messages: false,
            locations: false,
            is_alone: false,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("log_messages", &self.log_messages)
            .field("locations", &self.locations)
            .finish_non_exhaustive()
    }
}
