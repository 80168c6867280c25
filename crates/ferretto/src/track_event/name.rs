//! Names of events, tracks and states.

/// The name of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name<'a> {
    /// A name known at compile time, which is written once for each thread and recording.
    Static(&'static str),
    /// A name known at run time, which is written each time.
    Dynamic(&'a str),
}
