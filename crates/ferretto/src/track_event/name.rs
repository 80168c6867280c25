//! Names of events, tracks and states.

/// The name of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name<'a> {
    /// Known at compile time: written once for each thread and recording.
    Static(&'static str),
    /// Made at run time: written each time.
    Dynamic(&'a str),
}
