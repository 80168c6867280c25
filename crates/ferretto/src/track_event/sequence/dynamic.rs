//! Decisions about dynamic categories.

use ferretto_format::Fnv1a;

use crate::track_event::filter::Filter;

/// The number of decisions in the cache.
const SLOTS: usize = 64;

/// A cache of decisions about dynamic categories. Names with the same hash share a slot.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    /// The slots; empty before the first decision.
    slots: Vec<Option<(Box<str>, bool)>>,
}

impl Decisions {
    pub(super) fn decide(&mut self, names: &str, filter: &Filter) -> bool {
        if self.slots.is_empty() {
            self.slots.resize(SLOTS, None);
        }
        let hash = Fnv1a::hash(names.as_bytes());
        let slot = &mut self.slots[(hash ^ hash >> 32) as usize % SLOTS];
        if let Some((known, decision)) = slot
            && **known == *names
        {
            return *decision;
        }
        let decision = names.split(',').any(|name| filter.is_enabled_dynamic(name));
        *slot = Some((names.into(), decision));
        decision
    }
}
