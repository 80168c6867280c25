//! Sharding: sampling only one in n processes.

use std::collections::BTreeMap;

use ferretto_client::InstanceId;

/// One of several equal parts of all processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shard {
    pub(crate) count: u32,
    pub(crate) chosen: u32,
}

impl Shard {
    pub(super) fn has(self, pid: u32) -> bool {
        pid.checked_rem(self.count) == Some(self.chosen)
    }
}

/// The data source requests another shard count than its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it wants {wanted} shards of processes, but its recording has {used}; that is used")]
pub(crate) struct ShardError {
    wanted: u32,
    used: u32,
}

/// The chosen shards. The data sources of one session share a shard.
#[derive(Debug, Default)]
pub(crate) struct Shards {
    /// Session and shard by instance.
    chosen: BTreeMap<InstanceId, (u64, Shard)>,
}

impl Shards {
    /// Returns the shard of an instance. The first instance of a session chooses it by a `random`
    /// number. Returns an error, too, if the count differs from the session's.
    pub(crate) fn choose(
        &mut self,
        id: InstanceId,
        session: u64,
        count: u32,
        random: u32,
    ) -> (Shard, Option<ShardError>) {
        let chosen = self.chosen.values();
        let known = chosen
            .filter(|one| one.0 == session)
            .map(|one| one.1)
            .next();
        let shard = known.unwrap_or(Shard {
            count,
            chosen: random.checked_rem(count).unwrap_or(0),
        });
        self.chosen.insert(id, (session, shard));
        let error = (shard.count != count).then_some(ShardError {
            wanted: count,
            used: shard.count,
        });
        (shard, error)
    }

    /// Removes an instance.
    pub(crate) fn remove(&mut self, id: InstanceId) {
        self.chosen.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perf_027_data_sources_of_one_recording_share_a_shard() {
        let mut shards = Shards::default();
        let (first, error) = shards.choose(InstanceId(1), 7, 4, 10);
        assert_eq!((first.count, first.chosen, error), (4, 2, None));
        assert_eq!(shards.choose(InstanceId(2), 7, 4, 3), (first, None));
        let (other, error) = shards.choose(InstanceId(3), 7, 8, 3);
        assert_eq!(other, first);
        assert!(error.is_some());
        assert_eq!(shards.choose(InstanceId(4), 8, 8, 3).0.chosen, 3);
        for id in 1..4 {
            shards.remove(InstanceId(id));
        }
        assert_eq!(shards.choose(InstanceId(5), 7, 4, 3).0.chosen, 3);
    }
}
