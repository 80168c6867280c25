//! State changes of data source instances on their way to an observer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ferretto_proto::DataSourceConfig;
use ferretto_proto::observable_events::{DataSourceInstanceState, DataSourceInstanceStateChange};

use crate::ids::InstanceKey;

/// Changes in the order they are to be told.
///
/// While the observer has to read first, only the newest state of each instance is kept, and
/// nothing of instances that came and went meanwhile. So there are no more changes than instances
/// that exist, or did when it was told last.
#[derive(Debug, Default)]
pub(super) struct Changes {
    queue: BTreeMap<u64, InstanceChange>,
    /// Instances with changes in the queue.
    waiting: BTreeMap<InstanceKey, Waiting>,
    /// Others that exist and were told of.
    reported: BTreeSet<InstanceKey>,
    last: u64,
}

/// A state an instance came into.
#[derive(Debug)]
pub(crate) struct InstanceChange {
    pub(crate) key: InstanceKey,
    pub(crate) producer_name: Arc<[u8]>,
    /// Has the name of the data source.
    pub(crate) config: Arc<DataSourceConfig>,
    pub(crate) state: DataSourceInstanceState,
}

/// The changes of one instance that are to be told.
#[derive(Debug, Default)]
struct Waiting {
    changes: usize,
    /// Place of the newest in the queue.
    newest: u64,
    /// Something was told before.
    reported: bool,
    /// The instance is no more.
    gone: bool,
}

impl Changes {
    /// Notes the state of an instance. `held`: nothing can be told now.
    pub(super) fn note(&mut self, change: InstanceChange, held: bool) {
        let reported = &mut self.reported;
        let key = change.key;
        let waiting = self.waiting.entry(key).or_insert_with(|| Waiting {
            reported: reported.remove(&key),
            ..Waiting::default()
        });
        if held && let Some(newest) = self.queue.get_mut(&waiting.newest) {
            newest.state = change.state;
            return;
        }
        self.last += 1;
        waiting.changes += 1;
        waiting.newest = self.last;
        self.queue.insert(self.last, change);
    }

    /// Forgets an instance that has ended. Its pending changes are still reported, unless none ever
    /// was.
    pub(super) fn forget(&mut self, key: InstanceKey, held: bool) {
        self.reported.remove(&key);
        let Some(waiting) = self.waiting.get_mut(&key) else {
            return;
        };
        waiting.gone = true;
        if held && !waiting.reported && waiting.changes == 1 {
            self.queue.remove(&waiting.newest);
            self.waiting.remove(&key);
        }
    }

    /// Takes note that none of the instances will change again.
    pub(super) fn forget_all(&mut self) {
        self.reported.clear();
        for waiting in self.waiting.values_mut() {
            waiting.gone = true;
        }
    }

    /// Takes out the next change.
    pub(super) fn take(&mut self) -> Option<DataSourceInstanceStateChange> {
        let (_, change) = self.queue.pop_first()?;
        if let Some(waiting) = self.waiting.get_mut(&change.key) {
            waiting.reported = true;
            waiting.changes -= 1;
            if waiting.changes == 0 {
                let gone = waiting.gone;
                self.waiting.remove(&change.key);
                if !gone {
                    self.reported.insert(change.key);
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
