//! Whether slices nest.

use std::collections::BTreeMap;

use super::event::{Event, Kind};
use super::problem::{Problem, Problems};

/// Slices of one track that may be open at a time.
const MAX_OPEN: usize = 512;

/// Beginnings and ends of slices, by track.
#[derive(Debug, Default)]
pub(super) struct Slices(BTreeMap<u64, Vec<(u64, bool)>>);

impl Slices {
    pub(super) fn add(&mut self, event: &Event) {
        let begins = match event.kind {
            Kind::Begin => true,
            Kind::End => false,
            _ => return,
        };
        if let Some(time) = event.time {
            self.0.entry(event.track).or_default().push((time, begins));
        }
    }

    /// Counts slices that end without having begun and those inside too many others. Packets of several writers on
    /// one track are in no order.
    pub(super) fn check(self, problems: &mut Problems) {
        for mut edges in self.0.into_values() {
            edges.sort_by_key(|(time, _)| *time);
            let mut open: usize = 0;
            for (_, begins) in edges {
                match (begins, open) {
                    (true, MAX_OPEN..) => problems.add(Problem::SlicesTooDeep),
                    (true, _) => open += 1,
                    (false, 0) => problems.add(Problem::EndWithoutBegin),
                    (false, _) => open -= 1,
                }
            }
        }
    }
}
