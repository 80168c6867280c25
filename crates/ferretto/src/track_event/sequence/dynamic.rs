//! Decisions about dynamic categories.

use ferretto_format::Fnv1a;

use crate::track_event::filter::Filter;

/// The number of decisions in the cache.
const PLACES: usize = 64;

/// A cache of decisions about dynamic categories. Names with the same hash share a slot.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    /// The slots; empty before the first decision.
    places: Vec<Option<(Box<str>, bool)>>,
}

impl Decisions {
    pub(super) fn decide(&mut self, names: &str, filter: &Filter) -> bool {
        if self.places.is_empty() {
            self.places.resize(PLACES, None);
        }
        let hash = Fnv1a::hash(names.as_bytes());
        let place = &mut self.places[(hash ^ hash >> 32) as usize % PLACES];
        if let Some((known, decision)) = place
            && **known == *names
        {
            return *decision;
        }
        let decision = names.split(',').any(|name| filter.is_enabled_dynamic(name));
        *place = Some((names.into(), decision));
        decision
    }
}
