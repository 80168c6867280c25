//! Events of a session for the consumer that watches it.

use std::collections::VecDeque;

use ferretto_ipc::port::consumer::Reply;
use ferretto_proto::observable_events::{CloneTriggerHit, Type};
use ferretto_proto::{Message, ObservableEvents, ObserveEventsResponse};

use super::changes::Changes;
use crate::event::ClientId;
use crate::limits::{MAX_PENDING_HITS, REPLY_BYTES, SessionId};
use crate::service::Service;
use crate::session::{Instance, InstanceKey};

/// State changes put into one reply, to keep it well below a frame.
const CHANGE_BYTES_PER_REPLY: usize = 64 * 1024;

/// What a hit costs in a reply beyond its own bytes, rounded up.
const HIT_OVERHEAD: usize = 16;

/// A subscription.
#[derive(Debug)]
pub(crate) struct Observer {
    request_id: Option<u64>,
    instances: bool,
    all_started: bool,
    clone_triggers: bool,
    changes: Changes,
    started: bool,
    hits: VecDeque<CloneTriggerHit>,
}

impl Service {
    /// ObserveEvents: replaces the subscription; no types end it.
    pub(crate) fn observe_events(
        &mut self,
        client: ClientId,
        request_id: Option<u64>,
        types: &[Type],
    ) {
        let Some(consumer) = self.consumers.get_mut(&client) else {
            return;
        };
        let replaced = consumer.observer.take();
        let session = consumer.session;
        let end = || Some(Reply::ObserveEvents(Default::default()));
        if let Some(old) = replaced {
            self.reply_to_consumer(client, old.request_id, end());
        }
        // Types unknown here are none, and so is none in particular.
        if types.iter().all(|wanted| *wanted == Type::TYPE_UNSPECIFIED) {
            return self.reply_to_consumer(client, request_id, end());
        }
        let observer = Observer {
            request_id,
            instances: types.contains(&Type::TYPE_DATA_SOURCES_INSTANCES),
            all_started: types.contains(&Type::TYPE_ALL_DATA_SOURCES_STARTED),
            clone_triggers: types.contains(&Type::TYPE_CLONE_TRIGGER_HIT),
            changes: Changes::default(),
            started: false,
            hits: VecDeque::new(),
        };
        if let Some(consumer) = self.consumers.get_mut(&client) {
            consumer.observer = Some(observer);
        }
        if let Some(session) = session {
            self.report_current_state(client, session);
        }
    }

    /// A new subscriber learns the state of each instance, and that all started if they did: it may
    /// have come too late to see it happen.
    fn report_current_state(&mut self, client: ClientId, id: SessionId) {
        self.check_all_started(id);
        self.observed = true;
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        let Some(observer) = self
            .consumers
            .get_mut(&client)
            .and_then(|consumer| consumer.observer.as_mut())
        else {
            return;
        };
        for (key, instance) in session.instances.iter() {
            observer.note_change(*key, instance, false);
        }
        observer.started |= observer.all_started && session.all_started;
    }

    /// Tells whoever watches the session about an instance's new state.
    pub(crate) fn notify_instance(&mut self, id: SessionId, key: InstanceKey, instance: &Instance) {
        if let Some((observer, held)) = self.observer_of(id) {
            observer.note_change(key, instance, held);
        }
    }

    /// The instance is no more; that it stopped was told before.
    pub(crate) fn notify_instance_gone(&mut self, id: SessionId, key: InstanceKey) {
        if let Some((observer, held)) = self.observer_of(id).filter(|(o, _)| o.instances) {
            observer.changes.forget(key, held);
        }
    }

    pub(crate) fn notify_all_started(&mut self, id: SessionId) {
        if let Some((observer, _)) = self.observer_of(id) {
            observer.started |= observer.all_started;
        }
    }

    /// Asks the session's consumer to clone it. One that does not read is told later.
    pub(crate) fn notify_clone_trigger(&mut self, id: SessionId, mut hit: CloneTriggerHit) {
        let Some((observer, _)) = self.observer_of(id).filter(|(o, _)| o.clone_triggers) else {
            return;
        };
        let fits = |hit: &CloneTriggerHit| hit.encoded_len() as usize + HIT_OVERHEAD <= REPLY_BYTES;
        if !fits(&hit) {
            hit.producer_name = None;
        }
        if fits(&hit) && observer.hits.len() < MAX_PENDING_HITS {
            observer.hits.push_back(hit);
        }
    }

    /// Who watches the session, and whether it has to read first what was sent before.
    fn observer_of(&mut self, id: SessionId) -> Option<(&mut Observer, bool)> {
        let client = self.sessions.get(&id)?.consumer?;
        self.observed = true;
        let consumer = self.consumers.get_mut(&client)?;
        Some((consumer.observer.as_mut()?, consumer.blocked))
    }

    /// Sends what was noted while one event was handled, together. Any producer can cause it, so those that do not
    /// read it are told later.
    pub(crate) fn deliver_observed(&mut self) {
        // Looked at after every event, of which most concern no observer.
        if !std::mem::take(&mut self.observed) {
            return;
        }
        let consumers = self.consumers.iter();
        let watching = consumers.filter(|(_, consumer)| consumer.observer.is_some());
        let watching: Vec<ClientId> = watching.map(|(client, _)| *client).collect();
        for client in watching {
            self.deliver_observed_to(client);
        }
    }

    fn deliver_observed_to(&mut self, client: ClientId) {
        while let Some(consumer) = self.consumers.get_mut(&client)
            && !consumer.blocked
            && let Some(observer) = &mut consumer.observer
            && let Some(events) = observer.take_reply()
        {
            let request_id = observer.request_id;
            let reply = ObserveEventsResponse {
                events: events.into(),
                ..Default::default()
            };
            let bytes = reply.encoded_len() as usize;
            let reply = Some(Reply::ObserveEvents(reply));
            self.stream_to_consumer(client, request_id, reply, true, bytes);
        }
    }
}

impl Observer {
    /// What was noted of its session is told; nothing more will come.
    pub(crate) fn leave_session(&mut self) {
        self.changes.forget_all();
    }

    fn note_change(&mut self, key: InstanceKey, instance: &Instance, held: bool) {
        if self.instances {
            self.changes.note(key, instance, held);
        }
    }

    /// The next reply, if anything happened.
    fn take_reply(&mut self) -> Option<ObservableEvents> {
        let started = std::mem::take(&mut self.started);
        if self.changes.is_empty() && !started {
            return Some(ObservableEvents {
                clone_trigger_hit: self.hits.pop_front()?.into(),
                ..Default::default()
            });
        }
        let mut events = ObservableEvents {
            all_data_sources_started: started.then_some(true),
            ..Default::default()
        };
        let mut size = 0;
        while let Some(change) = self.changes.take() {
            size += change.encoded_len() as usize;
            events.instance_state_changes.push(change);
            if size >= CHANGE_BYTES_PER_REPLY {
                break;
            }
        }
        Some(events)
    }
}
