//! What other sessions did meanwhile, for traces that ask for it.

use std::sync::Arc;

use super::{Session, State};
use crate::limits::{MAX_CONCURRENT_EVENTS, MAX_CONCURRENT_NAME_BYTES, SessionId};
use crate::service::Service;

/// Another session was found in a state, or came into it.
#[derive(Debug, Clone)]
pub(crate) struct ConcurrentEvent {
    /// `CLOCK_BOOTTIME` of the transition.
    pub(crate) timestamp: u64,
    pub(crate) state: State,
    pub(crate) session: SessionId,
    pub(crate) name: Arc<[u8]>,
    pub(crate) consumer_uid: u32,
    pub(crate) data_sources: u32,
}

/// Events not read out yet. When it is full the newest are dropped, as upstream does.
#[derive(Debug, Default, Clone)]
pub(crate) struct ConcurrentEvents {
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

    /// Hands out all events, oldest first.
    pub(crate) fn take(&mut self) -> Vec<ConcurrentEvent> {
        let mut events = std::mem::take(self).events;
        events.sort_by_key(|event| event.timestamp);
        events
    }
}

impl Service {
    /// The session has come into its present state: sessions that record that note it.
    pub(crate) fn state_changed(&mut self, id: SessionId) {
        let now = self.now.boottime;
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        session.state_since = now;
        let event = session.concurrent_event(id);
        let live = |state| matches!(state, State::Configured | State::Started | State::Stopping);
        for (other, session) in &mut self.sessions {
            if *other != id && session.records_concurrent() && live(session.state) {
                session.concurrent.add(event.clone());
            }
        }
    }

    /// A new session that records others begins with the states they are in.
    pub(crate) fn note_existing_sessions(&mut self, id: SessionId) {
        if !self
            .sessions
            .get(&id)
            .is_some_and(Session::records_concurrent)
        {
            return;
        }
        let others = self.sessions.iter().filter(|(other, _)| **other != id);
        let existing: Vec<_> = others
            .filter(|(_, session)| !session.is_retiring())
            .map(|(other, session)| session.concurrent_event(*other))
            .collect();
        if let Some(session) = self.sessions.get_mut(&id) {
            existing.into_iter().for_each(|e| session.concurrent.add(e));
        }
    }
}

impl Session {
    pub(crate) fn records_concurrent(&self) -> bool {
        let builtin = &self.config.builtin_data_sources;
        builtin.enable_concurrent_session_events.unwrap_or(false)
    }

    fn concurrent_event(&self, id: SessionId) -> ConcurrentEvent {
        ConcurrentEvent {
            timestamp: self.state_since,
            state: self.state,
            session: id,
            name: self.name().into(),
            consumer_uid: self.consumer_uid,
            data_sources: self.instances.len() as u32,
        }
    }
}
