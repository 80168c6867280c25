//! Which recordings want which categories.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use ferretto_proto::fields::{track_event_category, track_event_descriptor};

use super::category::{Category, CategoryChange};
use super::filter::Filter;
use crate::engine::lock;

/// Called when a recording starts or stops to record a category.
type Notice = Arc<dyn Fn(CategoryChange) + Send + Sync>;

/// All categories used so far, and who wants what.
struct Registry {
    categories: Vec<&'static Category>,
    /// Slots that are recording, with their filters.
    filters: Vec<(usize, Arc<Filter>)>,
    observers: Vec<(&'static Category, Notice)>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    categories: Vec::new(),
    filters: Vec::new(),
    observers: Vec::new(),
});

impl Registry {
    /// The tags of a category, which may be declared somewhere else.
    fn tags(&self, name: &str, own: &'static [&'static str]) -> &'static [&'static str] {
        if !own.is_empty() {
            return own;
        }
        let mut named = self.categories.iter().filter(|known| known.name() == name);
        named
            .find_map(|known| Some(known.own_tags()).filter(|tags| !tags.is_empty()))
            .unwrap_or(own)
    }

    fn is_wanted(&self, filter: &Filter, category: &Category) -> bool {
        if !category.is_group() {
            let tags = self.tags(category.name(), category.own_tags());
            return filter.is_enabled(category.name(), tags);
        }
        // As in other libraries, a member counts with its tags and without.
        category.members().any(|member| {
            filter.is_enabled(member, self.tags(member, &[])) || filter.is_enabled_dynamic(member)
        })
    }

    fn evaluate(&self, category: &Category) -> u32 {
        self.filters
            .iter()
            .filter(|(_, filter)| self.is_wanted(filter, category))
            .fold(0, |mask, (slot, _)| mask | 1 << slot)
    }

    /// Evaluates every category anew. Returns whom to tell what.
    fn evaluate_all(&self) -> Vec<(Notice, CategoryChange)> {
        let before: Vec<u32> = self
            .observers
            .iter()
            .map(|(category, _)| category.known_slots().unwrap_or(0))
            .collect();
        for category in &self.categories {
            category.set_slots(self.evaluate(category));
        }
        let mut notices = Vec::new();
        for ((category, notice), before) in self.observers.iter().zip(before) {
            let after = category.known_slots().unwrap_or(0);
            notices.extend(changes(before, after).map(|change| (Arc::clone(notice), change)));
        }
        notices
    }
}

/// What turns one set of slots into another.
fn changes(before: u32, after: u32) -> impl Iterator<Item = CategoryChange> {
    crate::engine::bits(before ^ after).map(move |instance| CategoryChange {
        instance,
        is_enabled: after >> instance & 1 != 0,
        is_enabled_anywhere: after != 0,
    })
}

fn tell(notices: Vec<(Notice, CategoryChange)>) {
    for (notice, change) in notices {
        notice(change);
    }
}

/// Adds a category. Returns the slots that record it.
#[cold]
pub(super) fn introduce(category: &'static Category) -> u32 {
    let mut registry = lock(&REGISTRY);
    if let Some(slots) = category.known_slots() {
        return slots;
    }
    let mut known = registry.categories.iter();
    let is_new = !known.any(|known| known.name() == category.name());
    registry.categories.push(category);
    category.is_listed.store(1, Ordering::Relaxed);
    let slots = registry.evaluate(category);
    category.set_slots(slots);
    // Others of this name may have waited for its tags.
    let notices = match category.own_tags() {
        [] => Vec::new(),
        _ => registry.evaluate_all(),
    };
    drop(registry);
    tell(notices);
    if is_new && !category.is_group() {
        super::source::announce();
    }
    slots
}

/// Adds an observer of a category.
pub(super) fn observe(
    category: &'static Category,
    notice: Box<dyn Fn(CategoryChange) + Send + Sync>,
) {
    let notice: Notice = notice.into();
    let mut registry = lock(&REGISTRY);
    registry.observers.push((category, Arc::clone(&notice)));
    let slots = category.known_slots().unwrap_or(0);
    drop(registry);
    changes(0, slots).for_each(|change| notice(change));
}

/// Switches on what the instance in a slot wants.
pub(super) fn enable(slot: usize, filter: Arc<Filter>) {
    let mut registry = lock(&REGISTRY);
    registry.filters.push((slot, filter));
    let notices = registry.evaluate_all();
    drop(registry);
    tell(notices);
}

/// Switches off what only the instance in a slot wanted.
pub(super) fn disable(slot: usize) {
    let mut registry = lock(&REGISTRY);
    registry.filters.retain(|(other, _)| *other != slot);
    let notices = registry.evaluate_all();
    drop(registry);
    tell(notices);
}

/// The categories used so far, for the service to list: an encoded TrackEventDescriptor.
pub(super) fn descriptor() -> Vec<u8> {
    let registry = lock(&REGISTRY);
    let mut listed = BTreeSet::new();
    ferretto_wire::encode(|descriptor| {
        for category in registry.categories.iter().filter(|known| !known.is_group()) {
            if !listed.insert(category.name()) {
                continue;
            }
            let mut same = registry.categories.iter();
            let described = same
                .find(|same| same.name() == category.name() && !same.explanation().is_empty())
                .unwrap_or(category);
            descriptor.nested(track_event_descriptor::AVAILABLE_CATEGORIES, |item| {
                item.string(track_event_category::NAME, category.name());
                if !described.explanation().is_empty() {
                    item.string(track_event_category::DESCRIPTION, described.explanation());
                }
                for tag in registry.tags(category.name(), category.own_tags()) {
                    item.string(track_event_category::TAGS, tag);
                }
            });
        }
    })
}
