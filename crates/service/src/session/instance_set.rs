//! The data source instances of a session, with what is asked about all of them kept up to date.

use std::collections::BTreeMap;
use std::ops::Deref;

use super::instances::{Instance, InstanceState, Key};

/// Instances by producer and number.
///
/// It can be looked at as the map it is. Changing an instance means taking it out and putting it back:
/// so the counts stay right, and no question about all instances has to visit them.
#[derive(Debug, Default)]
pub(crate) struct Instances {
    map: BTreeMap<Key, Instance>,
    started: usize,
    stopped: usize,
}

impl Instances {
    pub(crate) fn insert(&mut self, key: Key, instance: Instance) {
        self.remove(&key);
        self.count(instance.state, 1);
        self.map.insert(key, instance);
    }

    pub(crate) fn remove(&mut self, key: &Key) -> Option<Instance> {
        let removed = self.map.remove(key)?;
        self.count(removed.state, -1);
        Some(removed)
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether each is started; also if there are none.
    pub(crate) fn all_started(&self) -> bool {
        self.started == self.map.len()
    }

    /// Whether each is stopped; also if there are none.
    pub(crate) fn all_stopped(&self) -> bool {
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
    type Target = BTreeMap<Key, Instance>;

    fn deref(&self) -> &Self::Target {
        &self.map
    }
}
