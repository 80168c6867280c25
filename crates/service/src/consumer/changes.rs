//! State changes of data source instances that an observer has not seen yet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ferretto_proto::DataSourceConfig;
use ferretto_proto::observable_events::{DataSourceInstanceState, DataSourceInstanceStateChange};

use crate::ids::InstanceKey;

/// Changes, in the order in which to report them.
///
/// While the observer has to read first, only the newest state of each instance is kept, and none
/// of instances that came and went meanwhile. So there are at most as many changes as instances
/// that exist, or existed at the last report.
#[derive(Debug, Default)]
pub(super) struct Changes {
    queue: BTreeMap<u64, InstanceChange>,
    /// Instances with changes in the queue.
    waiting: BTreeMap<InstanceKey, Waiting>,
    /// Instances without pending changes that were reported.
    reported: BTreeSet<InstanceKey>,
    last: u64,
}

/// The new state of an instance.
#[derive(Debug)]
pub(crate) struct InstanceChange {
    pub(crate) key: InstanceKey,
    pub(crate) producer_name: Arc<[u8]>,
    /// The config, which has the name of the data source.
    pub(crate) config: Arc<DataSourceConfig>,
    pub(crate) state: DataSourceInstanceState,
}

/// The pending changes of one instance.
#[derive(Debug, Default)]
struct Waiting {
    changes: usize,
    /// The position of the newest change in the queue.
    newest: u64,
    /// Set if an earlier change was reported.
    reported: bool,
    /// Set if the instance is gone.
    gone: bool,
}

impl Changes {
    /// Notes the state of an instance. `held` is true if changes cannot be reported now.
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

    /// Forgets an instance that has ended. Its pending changes are still reported, unless it was
    /// never reported.
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

    /// Notes that all instances have ended.
    pub(super) fn forget_all(&mut self) {
        self.reported.clear();
        for waiting in self.waiting.values_mut() {
            waiting.gone = true;
        }
    }

    /// Takes the next change.
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
