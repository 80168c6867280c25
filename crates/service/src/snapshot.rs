//! Clock snapshots, which relate the readings of different clocks in one trace.

use std::collections::VecDeque;

use ferretto_format::clock;

use crate::clocks::{Clocks, NS_PER_MS};

/// The number of snapshots kept between two reads; the oldest are dropped.
const RING: usize = 16;
/// The drift between clocks below which no new snapshot is kept.
const SIGNIFICANT_DRIFT_NS: u64 = 10 * NS_PER_MS;

impl Clocks {
    /// Returns clock ids with their readings in upstream's order: boottime first.
    pub(crate) fn by_id(&self) -> impl Iterator<Item = (u32, u64)> {
        let cycles = self.tsc.map(|cycles| (clock::TSC, cycles));
        self.times_by_id().into_iter().chain(cycles)
    }

    /// Returns the same without the clock that counts cycles.
    fn times_by_id(&self) -> [(u32, u64); 6] {
        [
            (clock::BOOTTIME, self.boottime),
            (clock::REALTIME_COARSE, self.realtime_coarse),
            (clock::MONOTONIC_COARSE, self.monotonic_coarse),
            (clock::REALTIME, self.realtime),
            (clock::MONOTONIC, self.monotonic),
            (clock::MONOTONIC_RAW, self.monotonic_raw),
        ]
    }

    fn drifted_from(&self, earlier: &Self) -> bool {
        let change = |a: u64, b: u64| i128::from(a) - i128::from(b);
        let boot = change(self.boottime, earlier.boottime);
        // The cycle counter is left out: it always drifts, so that upstream keeps nearly every
        // snapshot.
        self.times_by_id()
            .iter()
            .zip(earlier.times_by_id())
            .skip(1)
            .any(|((_, now), (_, then))| {
                (boot - change(*now, then)).unsigned_abs() >= u128::from(SIGNIFICANT_DRIFT_NS)
            })
    }
}

/// The snapshots of a session that were not read yet.
#[derive(Debug, Default, Clone)]
pub(crate) struct SnapshotRing {
    ring: VecDeque<Clocks>,
}

impl SnapshotRing {
    /// Keeps a snapshot, unless the clocks have not drifted since the last kept one.
    pub(crate) fn insert(&mut self, now: &Clocks) {
        if self.ring.back().is_some_and(|last| !now.drifted_from(last)) {
            return;
        }
        if self.ring.len() == RING {
            self.ring.pop_front();
        }
        self.ring.push_back(*now);
    }

    /// Takes all snapshots, oldest first.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Clocks> + '_ {
        self.ring.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_056_ring_keeps_last_16_significant() {
        let mut ring = SnapshotRing::default();
        let mut now = Clocks {
            realtime: 1 << 60,
            ..Clocks::default()
        };
        for _ in 0..17 {
            now.boottime += 1_000_000_000;
            now.realtime += 1_020_000_000;
            ring.insert(&now);
        }
        now.boottime += 9_999_999;
        ring.insert(&now);
        let kept: Vec<u64> = ring.drain().map(|c| c.boottime / 1_000_000_000).collect();
        assert_eq!(kept, (2..=17).collect::<Vec<_>>());
    }

    #[test]
    fn drift_is_relative_to_boottime() {
        let mut ring = SnapshotRing::default();
        let at = |ns| Clocks {
            boottime: ns,
            monotonic: ns,
            monotonic_coarse: ns,
            monotonic_raw: ns,
            realtime: 5 + ns,
            realtime_coarse: ns,
            tsc: Some(3 * ns),
        };
        ring.insert(&at(0));
        ring.insert(&at(1 << 40));
        assert_eq!(ring.drain().count(), 1);
    }
}
