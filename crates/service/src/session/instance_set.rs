//! The data source instances of a session, with counts of their states.

use std::collections::BTreeMap;
use std::ops::Deref;

use super::instance::{Instance, InstanceState};
use crate::ids::{InstanceId, InstanceKey, ProducerId};

/// Instances by producer and id.
///
/// It dereferences to a map for reading, and changes only through its methods, which keep the
/// counts current. No query about all instances has to visit them.
#[derive(Debug, Default)]
pub(super) struct Instances {
    map: BTreeMap<InstanceKey, Instance>,
    started: usize,
    stopped: usize,
}

impl Instances {
    pub(super) fn insert(&mut self, key: InstanceKey, instance: Instance) {
        self.remove(&key);
        self.count(instance.state(), 1);
        self.map.insert(key, instance);
    }

    pub(super) fn remove(&mut self, key: &InstanceKey) {
        if let Some(removed) = self.map.remove(key) {
            self.count(removed.state(), -1);
        }
    }

    /// Sets the state of an instance. Returns the instance if the state has changed.
    pub(super) fn set_state(
        &mut self,
        key: InstanceKey,
        state: InstanceState,
    ) -> Option<&Instance> {
        let instance = self.map.get_mut(&key)?;
        let before = instance.state();
        if before == state {
            return None;
        }
        instance.set_state(state);
        self.count(before, -1);
        self.count(state, 1);
        self.map.get(&key)
    }

    /// Notes the time of the start command to an instance.
    pub(super) fn note_start(&mut self, key: InstanceKey, boottime: u64) {
        if let Some(instance) = self.map.get_mut(&key) {
            instance.note_start(boottime);
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the ids of all instances.
    pub(super) fn all_keys(&self) -> Vec<InstanceKey> {
        self.map.keys().copied().collect()
    }

    /// Returns the instances of one producer.
    pub(super) fn of_producer(
        &self,
        producer: ProducerId,
    ) -> impl Iterator<Item = (&InstanceKey, &Instance)> {
        self.map.range((producer, 0)..=(producer, InstanceId::MAX))
    }

    /// Returns true if all instances are started, or there are none.
    pub(super) fn all_started(&self) -> bool {
        self.started == self.map.len()
    }

    /// Returns true if all instances are stopped, or there are none.
    pub(super) fn all_stopped(&self) -> bool {
        self.stopped == self.map.len()
    }

    fn count(&mut self, state: InstanceState, change: isize) {
        let counter = match state {
            InstanceState::Started => &mut self.started,
            InstanceState::Stopped => &mut self.stopped,
            _ => return,
        };
        *counter = counter.saturating_add_signed(change);
    }
}

impl Deref for Instances {
    type Target = BTreeMap<InstanceKey, Instance>;

    fn deref(&self) -> &Self::Target {
        &self.map
    }
}
