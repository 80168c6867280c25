//! The policy that decides which sessions may connect.

use std::sync::{Arc, PoisonError, RwLock};

use ferretto_engine::BackendKind;

use super::inbox::Inbox;

type Policy = Arc<dyn Fn(PolicyRequest) + Send + Sync>;

static POLICY: RwLock<Option<Policy>> = RwLock::new(None);

/// A session that requests permission to connect. See [`set_policy`].
///
/// May be answered later and on any thread. Dropping the request refuses it.
pub struct PolicyRequest {
    kind: BackendKind,
    inbox: Arc<Inbox>,
}

impl PolicyRequest {
    /// Returns the kind of service that the session wants to connect to.
    pub fn backend(&self) -> BackendKind {
        self.kind
    }

    /// Lets the session connect.
    pub fn allow(self) {
        self.inbox.decide(true);
    }

    /// Refuses the connection. The session then appears as disconnected.
    pub fn refuse(self) {
        self.inbox.decide(false);
    }
}

impl Drop for PolicyRequest {
    fn drop(&mut self) {
        // The first decision takes effect.
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

/// Sets the policy for all sessions of this process that are opened from now on. It is called
/// before a session connects, on the session's own thread; other sessions do not wait for the
/// decision.
pub fn set_policy(policy: impl Fn(PolicyRequest) + Send + Sync + 'static) {
    let mut current = POLICY.write().unwrap_or_else(PoisonError::into_inner);
    *current = Some(Arc::new(policy));
}

/// Asks the policy whether a session may connect. The decision goes to the session's inbox.
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
