//! State changes of data source instances on their way to an observer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ferretto_proto::DataSourceConfig;
use ferretto_proto::observable_events::{DataSourceInstanceState, DataSourceInstanceStateChange};

use crate::session::{Instance, InstanceKey, InstanceState};

/// Changes in the order they are to be told.
///
/// While the observer has to read first, only the newest state of each instance is kept, and nothing of instances that
/// came and went meanwhile. So there are no more changes than instances that exist, or did when it was told last.
#[derive(Debug, Default)]
pub(super) struct Changes {
    queue: BTreeMap<u64, Change>,
    /// Instances with changes in the queue.
    waiting: BTreeMap<InstanceKey, Waiting>,
    /// Others that exist and were told of.
    told: BTreeSet<InstanceKey>,
    last: u64,
}

#[derive(Debug)]
struct Change {
    key: InstanceKey,
    producer_name: Arc<[u8]>,
    /// Has the name of the data source.
    config: Arc<DataSourceConfig>,
    state: DataSourceInstanceState,
}

/// What is to be told of an instance.
#[derive(Debug, Default)]
struct Waiting {
    changes: usize,
    /// Place of the newest in the queue.
    newest: u64,
    /// Something was told before.
    told: bool,
    /// The instance is no more.
    gone: bool,
}

impl Changes {
    /// Notes the state of an instance, if it is one that is told. `held`: nothing can be told now.
    pub(super) fn note(&mut self, key: InstanceKey, instance: &Instance, held: bool) {
        let state = match instance.state {
            InstanceState::Configured | InstanceState::Stopped => {
                DataSourceInstanceState::DATA_SOURCE_INSTANCE_STATE_STOPPED
            }
            InstanceState::Started => DataSourceInstanceState::DATA_SOURCE_INSTANCE_STATE_STARTED,
            InstanceState::Starting | InstanceState::Stopping => return,
        };
        let told = &mut self.told;
        let waiting = self.waiting.entry(key).or_insert_with(|| Waiting {
            told: told.remove(&key),
            ..Waiting::default()
        });
        if held && let Some(change) = self.queue.get_mut(&waiting.newest) {
            change.state = state;
            return;
        }
        self.last += 1;
        waiting.changes += 1;
        waiting.newest = self.last;
        let change = Change {
            key,
            producer_name: Arc::clone(&instance.producer_name),
            config: Arc::clone(&instance.config),
            state,
        };
        self.queue.insert(self.last, change);
    }

    /// The instance is no more: what is to be told of it is told, unless nothing else ever was.
    pub(super) fn forget(&mut self, key: InstanceKey, held: bool) {
        self.told.remove(&key);
        let Some(waiting) = self.waiting.get_mut(&key) else {
            return;
        };
        waiting.gone = true;
        if held && !waiting.told && waiting.changes == 1 {
            self.queue.remove(&waiting.newest);
            self.waiting.remove(&key);
        }
    }

    /// None of the instances will change again.
    pub(super) fn forget_all(&mut self) {
        self.told.clear();
        for waiting in self.waiting.values_mut() {
            waiting.gone = true;
        }
    }

    /// Hands out the next change.
    pub(super) fn take(&mut self) -> Option<DataSourceInstanceStateChange> {
        let (_, change) = self.queue.pop_first()?;
        if let Some(waiting) = self.waiting.get_mut(&change.key) {
            waiting.told = true;
            waiting.changes -= 1;
            if waiting.changes == 0 {
                let gone = waiting.gone;
                self.waiting.remove(&change.key);
                if !gone {
                    self.told.insert(change.key);
                }
            }
        }
        Some(DataSourceInstanceStateChange {
            producer_name: Some(change.producer_name.to_vec()),
            data_source_name: change.config.name.clone(),
            state: Some(change.state),
            ..Default::default()
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}
