//! Transitions of other sessions, for traces that ask for them.

use std::sync::Arc;

use super::{Session, SessionState};
use crate::context::Context;
use crate::ids::SessionId;
use crate::limits::{MAX_CONCURRENT_EVENTS, MAX_CONCURRENT_NAME_BYTES};

/// A state of another session: the one it was found in, or a transition.
#[derive(Debug, Clone)]
pub(crate) struct ConcurrentEvent {
    /// `CLOCK_BOOTTIME` of the transition.
    pub(super) timestamp: u64,
    pub(super) state: SessionState,
    pub(super) session: SessionId,
    pub(super) name: Arc<[u8]>,
    pub(super) consumer_uid: u32,
    pub(super) data_sources: u32,
}

/// Events that were not read yet. When the list is full, the newest are dropped, as in upstream.
#[derive(Debug, Default, Clone)]
pub(super) struct ConcurrentEvents {
    events: Vec<ConcurrentEvent>,
    name_bytes: usize,
}

impl ConcurrentEvents {
    fn add(&mut self, event: ConcurrentEvent) {
        let name_bytes = self.name_bytes + event.name.len();
        if self.events.len() < MAX_CONCURRENT_EVENTS && name_bytes <= MAX_CONCURRENT_NAME_BYTES {
            self.name_bytes = name_bytes;
            self.events.push(event);
        }
    }

    /// Takes all events, oldest first.
    pub(super) fn take(&mut self) -> Vec<ConcurrentEvent> {
        let mut events = std::mem::take(self).events;
        events.sort_by_key(|event| event.timestamp);
        events
    }
}

impl Session {
    /// Announces the session's current state to other sessions.
    pub(crate) fn announce(&mut self, cx: &Context) {
        self.state_since = cx.now.boottime;
        self.announced.push(self.concurrent_event());
    }

    /// Takes the transitions that were not announced yet.
    pub(crate) fn take_announced(&mut self) -> Vec<ConcurrentEvent> {
        std::mem::take(&mut self.announced)
    }

    /// Returns true if the session's trace contains other sessions.
    pub(crate) fn records_concurrent(&self) -> bool {
        let builtin = &self.config.builtin_data_sources;
        builtin.enable_concurrent_session_events.unwrap_or(false)
    }

    /// Records a transition of another session, if this session currently records them.
    pub(crate) fn note_transition(&mut self, event: &ConcurrentEvent) {
        let records = matches!(
            self.state,
            SessionState::Configured | SessionState::Started | SessionState::Stopping
        );
        if records && self.records_concurrent() {
            self.concurrent.add(event.clone());
        }
    }

    /// Records the current states of other sessions.
    pub(crate) fn note_existing(&mut self, others: Vec<ConcurrentEvent>) {
        for event in others {
            self.concurrent.add(event);
        }
    }

    /// Returns the session's current state as an event for other sessions.
    pub(crate) fn concurrent_event(&self) -> ConcurrentEvent {
        ConcurrentEvent {
            timestamp: self.state_since,
            state: self.state,
            session: self.id,
            name: self.name().into(),
            consumer_uid: self.owner.uid,
            data_sources: self.instances.len() as u32,
        }
    }
}
