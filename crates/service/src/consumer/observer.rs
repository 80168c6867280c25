//! The events of a session for a consumer that observes it.

use std::collections::VecDeque;

use ferretto_proto::observable_events::{CloneTriggerHit, Type};
use ferretto_proto::{Message, ObservableEvents};

use super::changes::{Changes, InstanceChange};
use crate::ids::InstanceKey;
use crate::limits::{MAX_PENDING_HITS, REPLY_BYTES};

/// The size of the state changes in one reply, to keep it well below a frame.
const CHANGE_BYTES_PER_REPLY: usize = 64 * 1024;

/// The overhead of a clone trigger in a reply, rounded up.
const HIT_OVERHEAD: usize = 16;

/// A subscription, and the events that were not sent yet.
#[derive(Debug)]
pub(super) struct Observer {
    request_id: Option<u64>,
    instances: bool,
    all_started: bool,
    clone_triggers: bool,
    changes: Changes,
    started: bool,
    hits: VecDeque<CloneTriggerHit>,
}

impl Observer {
    /// Creates a subscription to these types; `None` if there are none.
    pub(super) fn new(request_id: Option<u64>, types: &[Type]) -> Option<Self> {
        // Unknown types count as none.
        if types.iter().all(|wanted| *wanted == Type::TYPE_UNSPECIFIED) {
            return None;
        }
        Some(Self {
            request_id,
            instances: types.contains(&Type::TYPE_DATA_SOURCES_INSTANCES),
            all_started: types.contains(&Type::TYPE_ALL_DATA_SOURCES_STARTED),
            clone_triggers: types.contains(&Type::TYPE_CLONE_TRIGGER_HIT),
            changes: Changes::default(),
            started: false,
            hits: VecDeque::new(),
        })
    }

    /// Returns the request to reply to.
    pub(super) fn request_id(&self) -> Option<u64> {
        self.request_id
    }

    /// Forgets the instances of the session, which will not change any more. Pending changes are
    /// still reported.
    pub(super) fn leave_session(&mut self) {
        self.changes.forget_all();
    }

    /// Notes the state of an instance. `held` is true if changes cannot be reported now.
    pub(super) fn note_change(&mut self, change: InstanceChange, held: bool) {
        if self.instances {
            self.changes.note(change, held);
        }
    }

    /// Notes that an instance is gone; its stop was reported before.
    pub(super) fn note_gone(&mut self, key: InstanceKey, held: bool) {
        if self.instances {
            self.changes.forget(key, held);
        }
    }

    pub(super) fn note_all_started(&mut self) {
        self.started |= self.all_started;
    }

    /// Notes a trigger to clone the session.
    pub(super) fn note_clone_trigger(&mut self, mut hit: CloneTriggerHit) {
        let fits = |hit: &CloneTriggerHit| hit.encoded_len() as usize + HIT_OVERHEAD <= REPLY_BYTES;
        if !self.clone_triggers {
            return;
        }
        if !fits(&hit) {
            hit.producer_name = None;
        }
        if fits(&hit) && self.hits.len() < MAX_PENDING_HITS {
            self.hits.push_back(hit);
        }
    }

    /// Takes the events for the next reply, if there are any.
    pub(super) fn take_events(&mut self) -> Option<ObservableEvents> {
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
