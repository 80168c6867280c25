//! The registry of categories and of the recordings that enable them.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

use ferretto_engine::{self as engine, lock};
use ferretto_proto::fields::{track_event_category, track_event_descriptor};
use ferretto_shm::fork::{AppendList, PerProcess};

use super::{Category, CategoryChange};
use crate::track_event::filter::Filter;
use crate::track_event::recordings;

/// An observer, called when a recording starts or stops recording a category.
type Notice = Arc<dyn Fn(CategoryChange) + Send + Sync>;

/// All categories used so far, and the filters of recordings.
struct Registry {
    categories: Vec<&'static Category>,
    /// The slots of active recordings, with their filters.
    filters: Vec<(usize, Arc<Filter>)>,
}

/// The categories that this process and its parents have used, the latest first.
static CATEGORIES: AppendList<&'static Category> = AppendList::new();

/// The observers of categories.
static OBSERVERS: AppendList<(&'static Category, Notice)> = AppendList::new();

/// The functions called after recordings start or stop.
static LISTENERS: AppendList<fn()> = AppendList::new();

/// Returns the registry of this process. A forked child makes its own, as the lock may be held by a
/// thread of the parent.
fn registry() -> MutexGuard<'static, Registry> {
    static REGISTRY: PerProcess<Mutex<Registry>> = PerProcess::new();
    lock(REGISTRY.get_or_init(|| {
        let mut categories: Vec<_> = CATEGORIES.iter().copied().collect();
        categories.reverse();
        Mutex::new(Registry {
            categories,
            filters: Vec::new(),
        })
    }))
}

impl Registry {
    /// Returns the tags of a category. Another category of the same name may declare them.
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
        // As in other libraries, each member is matched with its tags and without.
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

    /// Updates the slots of every category. Returns the notifications to deliver.
    fn evaluate_all(&self) -> Vec<(Notice, CategoryChange)> {
        let before: Vec<_> = OBSERVERS
            .iter()
            .map(|observer| (observer, observer.0.last_slots()))
            .collect();
        for category in &self.categories {
            category.update_slots(self.evaluate(category));
        }
        let mut notices = Vec::new();
        for ((category, notice), before) in before {
            let after = category.last_slots();
            notices.extend(changes(before, after).map(|change| (Arc::clone(notice), change)));
        }
        notices
    }
}

/// Returns the changes between two sets of slots.
fn changes(before: u32, after: u32) -> impl Iterator<Item = CategoryChange> {
    ferretto_engine::bits(before ^ after).map(move |instance| CategoryChange {
        instance,
        is_enabled: after >> instance & 1 != 0,
        is_enabled_anywhere: after != 0,
    })
}

fn notify(notices: Vec<(Notice, CategoryChange)>) {
    for (notice, change) in notices {
        notice(change);
    }
}

/// Adds a category. Returns the slots that record it.
#[cold]
pub(in crate::track_event) fn introduce(category: &'static Category) -> u32 {
    engine::revive();
    let mut registry = registry();
    if let Some(slots) = category.known_slots() {
        return slots;
    }
    let mut known = registry.categories.iter();
    let is_new = !known.any(|known| known.name() == category.name());
    if category.is_listed.swap(1, Ordering::Relaxed) == 0 {
        CATEGORIES.push(category);
        category.watch_forks();
        registry.categories.push(category);
    }
    let slots = registry.evaluate(category);
    category.set_slots(slots);
    // The tags also apply to other categories of the same name.
    let notices = match category.own_tags() {
        [] => Vec::new(),
        _ => registry.evaluate_all(),
    };
    drop(registry);
    notify(notices);
    if is_new && !category.is_group() {
        recordings::announce();
    }
    slots
}

/// Adds an observer of a category.
pub(in crate::track_event) fn observe(
    category: &'static Category,
    notice: Box<dyn Fn(CategoryChange) + Send + Sync>,
) {
    let notice: Notice = notice.into();
    let registry = registry();
    OBSERVERS.push((category, Arc::clone(&notice)));
    let slots = category.known_slots().unwrap_or(0);
    drop(registry);
    changes(0, slots).for_each(|change| notice(change));
}

/// Calls `listener` after every start and stop of a recording, once all categories are updated. For
/// libraries that cache the state of many categories. It is called on ferretto's background thread.
pub fn on_any_change(listener: fn()) {
    LISTENERS.push(listener);
}

/// Enables the categories that match the filter of the instance in a slot.
pub(in crate::track_event) fn enable(slot: usize, filter: Arc<Filter>) {
    let mut registry = registry();
    registry.filters.push((slot, filter));
    let notices = registry.evaluate_all();
    drop(registry);
    notify(notices);
    LISTENERS.iter().for_each(|listener| listener());
}

/// Disables the instance in a slot for all categories.
pub(in crate::track_event) fn disable(slot: usize) {
    let mut registry = registry();
    registry.filters.retain(|(other, _)| *other != slot);
    let notices = registry.evaluate_all();
    drop(registry);
    notify(notices);
    LISTENERS.iter().for_each(|listener| listener());
}

/// Returns an encoded TrackEventDescriptor of the categories used so far, which the service lists.
pub(in crate::track_event) fn descriptor() -> Vec<u8> {
    let registry = registry();
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
