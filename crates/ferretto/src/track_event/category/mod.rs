//! Categories: groups of events that recordings enable and disable.

pub(super) mod registry;

use std::sync::atomic::{AtomicU32, Ordering};

use ferretto_shm::fork::store_in_child;

/// Set until this process has evaluated the category for the first time.
const UNKNOWN: u32 = 1 << 31;

/// The largest number of categories in a group.
const MAX_MEMBERS: usize = 4;

/// A group of track events that recordings can enable by name.
///
/// The macros create a category for every literal that they are given. A category that is used in
/// many places, or that has a description or tags, is best declared once, alone or in a table
/// ([`categories!`](crate::categories)):
///
/// ```
/// use ferretto::Category;
///
/// static RENDERING: Category = Category::new("rendering").description("Drawing of frames").tags(&["slow"]);
///
/// let _slice = ferretto::slice!(RENDERING, "draw");
/// ```
///
/// Recordings treat two categories of the same name as one. Only one of them needs to declare the
/// tags.
///
/// A name with commas is a group of two to four categories. An event of the group is recorded if
/// any of these categories is enabled, and belongs to all of them.
#[derive(Debug)]
pub struct Category {
    name: &'static str,
    description: &'static str,
    tags: &'static [&'static str],
    /// Set if the name is a group: several names separated by commas.
    is_group: bool,
    /// Bit `n` is set if the instance in slot `n` records the category.
    mask: AtomicU32,
    /// Nonzero once the category is in the registry.
    is_listed: AtomicU32,
}

impl Category {
    /// Creates a category.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            description: "",
            tags: &[],
            is_group: count_members(name) != 1,
            mask: AtomicU32::new(UNKNOWN),
            is_listed: AtomicU32::new(0),
        }
    }

    /// Sets the description, which tools show to the user.
    #[must_use]
    pub const fn description(mut self, description: &'static str) -> Self {
        self.description = description;
        self
    }

    /// Sets the tags, by which configs can select the category, too. Categories with the tags
    /// `slow` and `debug` are disabled by default.
    #[must_use]
    pub const fn tags(mut self, tags: &'static [&'static str]) -> Self {
        self.tags = tags;
        self
    }

    /// Returns the name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns true if a recording has enabled the category. If not, the call costs one load and
    /// one branch; the first call also registers the category.
    #[inline(always)]
    pub fn is_enabled(&'static self) -> bool {
        let mask = if cfg!(feature = "off") {
            0
        } else {
            self.mask.load(Ordering::Relaxed)
        };
        mask != 0 && (mask & UNKNOWN == 0 || registry::introduce(self) != 0)
    }

    /// Registers the category, so that recordings know it before its first use. Further calls are
    /// cheap.
    pub fn register(&'static self) {
        self.slots();
    }

    /// Calls `notice` whenever a recording starts or stops recording the category, and at once for
    /// each recording that already does.
    ///
    /// The calls happen on the calling thread or on ferretto's background thread, which `notice`
    /// must not block. An observer cannot be removed.
    pub fn on_change(&'static self, notice: impl Fn(CategoryChange) + Send + Sync + 'static) {
        self.register();
        registry::observe(self, Box::new(notice));
    }

    pub(super) fn explanation(&self) -> &'static str {
        self.description
    }

    pub(super) fn own_tags(&self) -> &'static [&'static str] {
        self.tags
    }

    /// Returns the names of the categories in a group, or the category's own name.
    pub(super) fn members(&self) -> impl Iterator<Item = &'static str> {
        self.name.split(',')
    }

    #[inline]
    pub(super) fn is_group(&self) -> bool {
        self.is_group
    }

    /// Returns the slots whose instances record the category.
    #[inline]
    pub(super) fn slots(&'static self) -> u32 {
        match self.mask.load(Ordering::Relaxed) {
            mask if mask & UNKNOWN == 0 => mask,
            _ => registry::introduce(self),
        }
    }

    /// Returns the slots of the last update.
    pub(super) fn last_slots(&self) -> u32 {
        self.mask.load(Ordering::Relaxed) & !UNKNOWN
    }

    /// Returns the slots whose instances record the category, or `None` before the first
    /// evaluation.
    #[inline]
    pub(super) fn known_slots(&self) -> Option<u32> {
        let mask = self.mask.load(Ordering::Relaxed);
        (mask & UNKNOWN == 0).then_some(mask)
    }

    pub(super) fn set_slots(&self, slots: u32) {
        // Release: a thread that sees a slot also sees the contents of its recording.
        self.mask.store(slots, Ordering::Release);
    }

    /// Updates the slots when recordings start or stop. Before its first evaluation, the category
    /// stays unknown, since in a forked child more recordings may be about to continue.
    pub(super) fn update_slots(&self, slots: u32) {
        let unknown = self.mask.load(Ordering::Relaxed) & UNKNOWN;
        self.set_slots(slots | unknown);
    }

    /// Resets the category to unknown in forked children.
    pub(super) fn watch_forks(&'static self) {
        store_in_child(&self.mask, UNKNOWN);
    }
}

/// A change of the recordings of a category.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CategoryChange {
    /// The index of the recording, 0 to 7, among those that run at the same time.
    pub instance: usize,
    /// True if this recording now records the category.
    pub is_enabled: bool,
    /// True if any recording now records the category.
    pub is_enabled_anywhere: bool,
}

/// Returns true if `name` is a valid name of a category or group in the macros.
pub const fn is_valid_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let mut index = 0;
    while index < bytes.len() {
        if matches!(bytes[index], b'*' | b'"' | b' ') {
            return false;
        }
        index += 1;
    }
    !bytes.is_empty() && count_members(name) <= MAX_MEMBERS
}

const fn count_members(name: &str) -> usize {
    let bytes = name.as_bytes();
    let mut members = 1;
    let mut index = 0;
    while index < bytes.len() {
        members += (bytes[index] == b',') as usize;
        index += 1;
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_configs_cannot_select_are_rejected() {
        for name in ["a", "a.b:c", "a,b,c,d", "disabled-by-default-x", "ü"] {
            assert!(is_valid_name(name), "{name}");
        }
        for name in ["", "a b", "a*", "\"", "a,b,c,d,e"] {
            assert!(!is_valid_name(name), "{name}");
        }
    }
}
