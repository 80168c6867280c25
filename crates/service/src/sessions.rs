//! All sessions, by their ids.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::event::FileId;
use crate::ids::{InstanceKey, SessionId};
use crate::matching::Weight;
use crate::priority::Priority;
use crate::session::Session;

/// The sessions, including freed ones whose files are still being written.
#[derive(Debug, Default)]
pub(crate) struct Sessions(BTreeMap<SessionId, Session>);

impl Sessions {
    /// Returns a session that must exist: that of a consumer or a timer, or one just listed.
    pub(crate) fn existing(&mut self, id: SessionId) -> Option<&mut Session> {
        let session = self.0.get_mut(&id);
        debug_assert!(session.is_some(), "there is no session {id}");
        session
    }

    /// Returns a session, unless it was freed after its id was noted.
    pub(crate) fn if_there(&mut self, id: SessionId) -> Option<&mut Session> {
        self.0.get_mut(&id)
    }

    /// Returns a session, unless it was freed.
    pub(crate) fn get(&self, id: SessionId) -> Option<&Session> {
        self.0.get(&id)
    }

    /// Returns the session that writes this file; `None` if the file is already closed, since
    /// answers may come late.
    pub(crate) fn of_file(&self, file: FileId) -> Option<&Session> {
        self.0.values().find(|session| session.writes(file))
    }

    /// Returns the session of a data source instance; `None` if it is gone or never was, since
    /// producers may confirm late or send any id.
    pub(crate) fn of_instance(&self, key: InstanceKey) -> Option<SessionId> {
        let session = self.0.values().find(|session| session.has_instance(key))?;
        Some(session.id())
    }

    /// Returns the session that this user detached with this key.
    pub(crate) fn detached_as(&self, uid: u32, key: &[u8]) -> Option<SessionId> {
        let mut all = self.0.values();
        let session = all.find(|session| session.is_detached_as(uid, key))?;
        Some(session.id())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Session> {
        self.0.values()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Session> {
        self.0.values_mut()
    }

    /// Returns the sessions that are not freed.
    pub(crate) fn live(&self) -> impl Iterator<Item = &Session> {
        self.iter().filter(|session| !session.is_retiring())
    }

    /// Returns the sessions after this id, or all sessions, by id.
    pub(crate) fn after(&self, last: Option<SessionId>) -> impl Iterator<Item = &Session> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = self.0.range((from, Bound::Unbounded));
        behind.map(|(_, session)| session)
    }

    pub(crate) fn ids(&self) -> Vec<SessionId> {
        self.0.keys().copied().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn insert(&mut self, session: Session) {
        self.0.insert(session.id(), session);
    }

    pub(crate) fn remove(&mut self, id: SessionId) -> Option<Session> {
        self.0.remove(&id)
    }

    /// Returns the size of the regular expressions of a user's sessions, except one.
    pub(crate) fn expressions_of_user(&self, uid: u32, except: Option<SessionId>) -> Weight {
        let others = self.iter().filter(|session| Some(session.id()) != except);
        let of_user = others.filter(|session| session.uid() == uid);
        of_user.map(Session::expressions).sum()
    }

    /// Returns the highest priority that a session requests.
    pub(crate) fn priority(&self) -> Option<Priority> {
        self.iter().map(Session::priority).max().flatten()
    }

    /// Notifies the other sessions of a session's transitions.
    pub(crate) fn announce_transitions(&mut self, id: SessionId) {
        let Some(session) = self.existing(id) else {
            return;
        };
        for event in session.take_announced() {
            for other in self.iter_mut().filter(|other| other.id() != id) {
                other.note_transition(&event);
            }
        }
    }

    /// Gives a new session that records other sessions their current states.
    pub(crate) fn note_existing_sessions(&mut self, id: SessionId) {
        if !self.existing(id).is_some_and(|s| s.records_concurrent()) {
            return;
        }
        let others = self.live().filter(|other| other.id() != id);
        let existing: Vec<_> = others.map(Session::concurrent_event).collect();
        if let Some(session) = self.existing(id) {
            session.note_existing(existing);
        }
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "there is no session 7")]
    fn a_missing_session_that_must_exist_panics() {
        let id = SessionId::new(7).unwrap();
        assert!(Sessions::default().if_there(id).is_none());
        Sessions::default().existing(id);
    }
}
