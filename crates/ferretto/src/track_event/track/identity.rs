//! The tracks of this process and of a thread.

use ferretto_engine::{current_process, current_thread};
use ferretto_format::{Process, Thread};

/// The uuids of the process's and the thread's tracks, on which the uuids of other tracks depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::track_event) struct Identity {
    pub(in crate::track_event) process: u64,
    pub(in crate::track_event) thread: u64,
}

impl Identity {
    pub(in crate::track_event) fn of(process: &Process, thread: &Thread) -> Self {
        Self {
            process: process.uuid,
            thread: thread.uuid(process),
        }
    }

    /// Returns the identity of the calling thread.
    pub(in crate::track_event) fn current() -> Self {
        Self::of(current_process(), &current_thread())
    }
}
