//! Leaving a session running without its consumer, and taking it up again.

use ferretto_proto::TraceConfig;

use crate::event::ClientId;
use crate::service::Service;

impl Service {
    /// Detach: the session goes on alone until someone of the same user attaches with `key`.
    /// Returns whether it did. Its EnableTracing request stays unanswered: whoever attaches says
    /// anew where to report the end.
    pub(crate) fn detach(&mut self, client: ClientId, key: Vec<u8>) -> bool {
        let Some(consumer) = self.consumers.get_mut(&client) else {
            return false;
        };
        let Some(id) = consumer.session else {
            return false;
        };
        let uid = consumer.peer.uid;
        let taken = self
            .sessions
            .values()
            .any(|other| other.consumer_uid == uid && other.detach_key.as_ref() == Some(&key));
        // Upstream takes an empty key for "not detached".
        if key.is_empty() || taken {
            return false;
        }
        let Some(session) = self.sessions.get_mut(&id) else {
            return false;
        };
        session.consumer = None;
        session.detach_key = Some(key);
        consumer.leave_session();
        true
    }

    /// Attach: the consumer takes over the detached session of its user with this key. Returns the
    /// session's config.
    pub(crate) fn attach(&mut self, client: ClientId, key: &[u8]) -> Option<TraceConfig> {
        let consumer = self.consumers.get_mut(&client)?;
        if consumer.session.is_some() {
            return None;
        }
        let uid = consumer.peer.uid;
        let (id, session) = self.sessions.iter_mut().find(|(_, session)| {
            session.consumer_uid == uid && session.detach_key.as_deref() == Some(key)
        })?;
        session.consumer = Some(client);
        session.detach_key = None;
        consumer.session = Some(*id);
        let (id, config) = (*id, session.config.clone());
        self.check_all_started(id);
        Some(config)
    }
}
