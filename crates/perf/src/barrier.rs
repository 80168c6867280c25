//! Barriers: actions that follow everything sent before.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ferretto_client::InstanceId;

/// The key of a run of a data source. Unlike instance ids, keys are never reused.
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
    /// Stop the source and report that.
    Stop {
        source: SourceKey,
        instance: InstanceId,
    },
}

/// A barrier in the queues, sent on every path by which samples reach the writer. When it has
/// arrived on all paths, everything before it has been written.
#[derive(Debug)]
pub(crate) struct Barrier {
    missing: AtomicUsize,
    /// Set once the action has been carried out or cancelled.
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

    /// Notes the arrival on one more path. Returns true if it was the last one.
    pub(crate) fn arrives(&self) -> bool {
        self.missing.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Returns true, once, if the caller must carry out the action.
    pub(crate) fn claim(&self) -> bool {
        !self.is_claimed.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn is_claimed(&self) -> bool {
        self.is_claimed.load(Ordering::Acquire)
    }
}
