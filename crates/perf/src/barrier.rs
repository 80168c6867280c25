//! Doing something once everything before it is through.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ferretto_client::InstanceId;

/// One run of a data source. Unlike the service's number of the instance it is never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SourceKey(pub(crate) u64);

/// The action that follows when all queues have passed the barrier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Flush these instances, and answer the request.
    Flush {
        request: u64,
        sources: Vec<SourceKey>,
    },
    /// End the source and say so.
    Stop {
        source: SourceKey,
        instance: InstanceId,
    },
}

/// Travels along every way on which samples reach the writer. When it has arrived on all of them,
/// everything before it has been written.
#[derive(Debug)]
pub(crate) struct Barrier {
    missing: AtomicUsize,
    /// It has been done, or nobody waits for it any more.
    is_claimed: AtomicBool,
    pub(crate) action: Action,
}

impl Barrier {
    pub(crate) fn new(ways: usize, action: Action) -> Self {
        Self {
            missing: AtomicUsize::new(ways),
            is_claimed: AtomicBool::new(false),
            action,
        }
    }

    /// It has arrived on one more way; whether that was the last.
    pub(crate) fn arrives(&self) -> bool {
        self.missing.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Returns whether the caller has to carry out the action, which is so once.
    pub(crate) fn claim(&self) -> bool {
        !self.is_claimed.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn is_claimed(&self) -> bool {
        self.is_claimed.load(Ordering::Acquire)
    }
}
