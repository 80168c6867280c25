//! The policy of who may record.

use std::sync::{Arc, PoisonError, RwLock};

use ferretto_engine::BackendKind;

use super::inbox::Inbox;

type Policy = Arc<dyn Fn(PolicyRequest) + Send + Sync>;

static POLICY: RwLock<Option<Policy>> = RwLock::new(None);

/// A session that asks whether it may connect. See [`set_policy`].
///
/// May be answered on any thread, and later. Dropping it refuses.
pub struct PolicyRequest {
    kind: BackendKind,
    inbox: Arc<Inbox>,
}

impl PolicyRequest {
    /// Returns the kind of service that it wants to connect to.
    pub fn backend(&self) -> BackendKind {
        self.kind
    }

    /// Lets the session connect.
    pub fn allow(self) {
        self.inbox.decide(true);
    }

    /// Keeps the session from connecting. To its owner that looks like a lost connection.
    pub fn refuse(self) {
        self.inbox.decide(false);
    }
}

impl Drop for PolicyRequest {
    fn drop(&mut self) {
        // The first decision counts.
        self.inbox.decide(false);
    }
}

impl std::fmt::Debug for PolicyRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PolicyRequest")
            .field("backend", &self.kind)
            .finish_non_exhaustive()
    }
}

/// Has `policy` decide about every session of this process that is opened from now on, before it
/// connects. It is called on the session's own thread; a session that waits for the decision does
/// not hold up others.
pub fn set_policy(policy: impl Fn(PolicyRequest) + Send + Sync + 'static) {
    let mut place = POLICY.write().unwrap_or_else(PoisonError::into_inner);
    *place = Some(Arc::new(policy));
}

/// Asks whether a session may connect. The answer goes to its inbox.
pub(super) fn ask(kind: BackendKind, inbox: &Arc<Inbox>) {
    let policy = POLICY
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    match policy {
        Some(policy) => policy(PolicyRequest {
            kind,
            inbox: Arc::clone(inbox),
        }),
        None => inbox.decide(true),
    }
}
