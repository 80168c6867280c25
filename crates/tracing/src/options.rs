//! The options of the layer.

use std::fmt;
use std::sync::Arc;

use tracing_core::Metadata;

/// The tracks for the slices of spans.
///
/// A span of synchronous code is entered once, so the first two options are equivalent for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Spans {
    /// A slice each time the span is entered, on the track of the thread that enters it.
    #[default]
    Threads,
    /// Like [`Spans::Threads`], with arrows from each slice of the span to the next, across
    /// threads.
    Flows,
    /// One slice, from when the span is first entered to when it is closed, on its own track. A
    /// child span uses the track of its parent, unless another child uses it.
    Tracks,
}

/// The options of a layer.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) spans: Arc<dyn Fn(&Metadata<'static>) -> Spans + Send + Sync>,
    /// True if spans may have their own tracks.
    pub(crate) has_tracks: bool,
    pub(crate) log_messages: bool,
    pub(crate) locations: bool,
    /// True if there is no other layer that may need spans that are not recorded.
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
