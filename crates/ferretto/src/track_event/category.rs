//! Categories: what can be switched on and off.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use ferretto_proto::fields::{track_event_category, track_event_descriptor};

use super::filter::Filter;
use crate::engine::lock;

/// Set until the category has been evaluated for the first time.
const UNKNOWN: u32 = 1 << 31;

/// A group of track events that recordings can ask for by name.
///
/// The macros make one for every place that names its category by a literal. A category that many places use, or that
/// has a description or tags, is best declared once:
///
/// ```
/// use ferretto::Category;
///
/// static RENDERING: Category = Category::new("rendering").description("Drawing of frames").tags(&["slow"]);
///
/// let _slice = ferretto::slice!(RENDERING, "draw");
/// ```
#[derive(Debug)]
pub struct Category {
    name: &'static str,
    description: &'static str,
    tags: &'static [&'static str],
    /// Bit `n`: recorded by the instance in slot `n`.
    mask: AtomicU32,
}

impl Category {
    /// A category.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            description: "",
            tags: &[],
            mask: AtomicU32::new(UNKNOWN),
        }
    }

    /// Explains the category to people.
    #[must_use]
    pub const fn description(mut self, description: &'static str) -> Self {
        self.description = description;
        self
    }

    /// Gives the category tags, by which configs can select it, too. Those with the tags `slow` and `debug` are off
    /// unless asked for.
    #[must_use]
    pub const fn tags(mut self, tags: &'static [&'static str]) -> Self {
        self.tags = tags;
        self
    }

    /// The name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Whether anybody records the category. One load; now and then `true` before the category was first used.
    #[inline(always)]
    pub fn is_enabled(&self) -> bool {
        self.mask.load(Ordering::Relaxed) != 0
    }

    /// The slots that record the category.
    #[inline]
    pub(super) fn slots(&'static self) -> u32 {
        match self.mask.load(Ordering::Relaxed) {
            mask if mask & UNKNOWN == 0 => mask,
            _ => self.introduce(),
        }
    }

    #[cold]
    fn introduce(&'static self) -> u32 {
        let mut registry = lock(&REGISTRY);
        if self.mask.load(Ordering::Relaxed) & UNKNOWN == 0 {
            return self.mask.load(Ordering::Relaxed);
        }
        let is_new = !registry
            .categories
            .iter()
            .any(|known| known.name == self.name);
        registry.categories.push(self);
        let mask = registry.evaluate(self);
        self.mask.store(mask, Ordering::Relaxed);
        drop(registry);
        if is_new {
            super::announce();
        }
        mask
    }
}

/// All categories used so far, and who wants what.
struct Registry {
    categories: Vec<&'static Category>,
    /// Slots that are recording, with their filters.
    filters: Vec<(usize, Filter)>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    categories: Vec::new(),
    filters: Vec::new(),
});

impl Registry {
    fn evaluate(&self, category: &Category) -> u32 {
        self.filters
            .iter()
            .filter(|(_, filter)| filter.is_enabled(category.name, category.tags))
            .fold(0, |mask, (slot, _)| mask | 1 << slot)
    }

    fn evaluate_all(&self) {
        for category in &self.categories {
            category
                .mask
                .store(self.evaluate(category), Ordering::Relaxed);
        }
    }
}

/// Switches on what the instance in a slot wants.
pub(super) fn enable(slot: usize, filter: Filter) {
    let mut registry = lock(&REGISTRY);
    registry.filters.push((slot, filter));
    registry.evaluate_all();
}

/// Switches off what only the instance in a slot wanted.
pub(super) fn disable(slot: usize) {
    let mut registry = lock(&REGISTRY);
    registry.filters.retain(|(other, _)| *other != slot);
    registry.evaluate_all();
}

/// The categories used so far, for the service to list: an encoded TrackEventDescriptor.
pub(super) fn descriptor() -> Vec<u8> {
    let registry = lock(&REGISTRY);
    let mut listed: Vec<&str> = Vec::new();
    ferretto_wire::encode(|descriptor| {
        for category in &registry.categories {
            if listed.contains(&category.name) {
                continue;
            }
            listed.push(category.name);
            descriptor.nested(track_event_descriptor::AVAILABLE_CATEGORIES, |item| {
                item.string(track_event_category::NAME, category.name);
                if !category.description.is_empty() {
                    item.string(track_event_category::DESCRIPTION, category.description);
                }
                for tag in category.tags {
                    item.string(track_event_category::TAGS, tag);
                }
            });
        }
    })
}
