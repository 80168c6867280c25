//! Categories: groups of events that recordings switch on and off.

pub(super) mod registry;

use std::sync::atomic::{AtomicU32, Ordering};

use ferretto_shm::fork::store_in_child;

/// Set until the category has been evaluated for the first time, in this process.
const UNKNOWN: u32 = 1 << 31;

/// Most members of a group.
const MAX_MEMBERS: usize = 4;

/// A group of track events that recordings can ask for by name.
///
/// The macros make one for every place that names its category by a literal. A category that many
/// places use, or that has a description or tags, is best declared once, alone or in a table
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
/// Two categories of the same name are the same to recordings. Tags need to be declared once only.
///
/// A name with commas is a group of two to four categories: the event is recorded if one of them is
/// asked for, and belongs to all.
#[derive(Debug)]
pub struct Category {
    name: &'static str,
    description: &'static str,
    tags: &'static [&'static str],
    /// The name is that of several categories, with commas between them.
    is_group: bool,
    /// Bit `n`: recorded by the instance in slot `n`.
    mask: AtomicU32,
    /// Nonzero once it is in the registry's table.
    is_listed: AtomicU32,
}

impl Category {
    /// A category.
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

    /// Explains the category to people.
    #[must_use]
    pub const fn description(mut self, description: &'static str) -> Self {
        self.description = description;
        self
    }

    /// Gives the category tags, by which configs can select it, too. Those with the tags `slow` and
    /// `debug` are off unless asked for.
    #[must_use]
    pub const fn tags(mut self, tags: &'static [&'static str]) -> Self {
        self.tags = tags;
        self
    }

    /// The name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns true if a recording wants the category. If none does, this takes one load and one
    /// branch; but the first call makes the category known to recordings.
    #[inline(always)]
    pub fn is_enabled(&'static self) -> bool {
        let mask = match cfg!(feature = "off") {
            true => 0,
            false => self.mask.load(Ordering::Relaxed),
        };
        mask != 0 && (mask & UNKNOWN == 0 || registry::introduce(self) != 0)
    }

    /// Makes the category known to recordings, which its first use does otherwise. Cheap to call
    /// again.
    pub fn register(&'static self) {
        self.slots();
    }

    /// Has `notice` called whenever a recording starts or stops to record the category, and now for
    /// each that does.
    ///
    /// It is called on ferretto's background thread, which must not be held up, or on the calling
    /// one. Calls cannot be taken back.
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

    /// The names of the categories in a group; the name of any other.
    pub(super) fn members(&self) -> impl Iterator<Item = &'static str> {
        self.name.split(',')
    }

    #[inline]
    pub(super) fn is_group(&self) -> bool {
        self.is_group
    }

    /// The slots that record the category.
    #[inline]
    pub(super) fn slots(&'static self) -> u32 {
        match self.mask.load(Ordering::Relaxed) {
            mask if mask & UNKNOWN == 0 => mask,
            _ => registry::introduce(self),
        }
    }

    /// The slots that record the category, `None` before it was first evaluated.
    #[inline]
    pub(super) fn known_slots(&self) -> Option<u32> {
        let mask = self.mask.load(Ordering::Relaxed);
        (mask & UNKNOWN == 0).then_some(mask)
    }

    pub(super) fn set_slots(&self, slots: u32) {
        // A thread that sees a slot also sees the contents that its recording has put there.
        self.mask.store(slots, Ordering::Release);
    }

    /// Forked children find the category unknown again.
    pub(super) fn watch_forks(&'static self) {
        store_in_child(&self.mask, UNKNOWN);
    }
}

/// A recording starts or stops to record a category.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CategoryChange {
    /// Tells recordings that run at the same time apart: 0 to 7.
    pub instance: usize,
    /// True if this recording wants the category now.
    pub is_enabled: bool,
    /// True if any recording wants it now.
    pub is_enabled_anywhere: bool,
}

/// Returns true if a name can be that of a category or group in the macros.
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
    fn names_that_configs_cannot_ask_for_are_refused() {
        for name in ["a", "a.b:c", "a,b,c,d", "disabled-by-default-x", "ü"] {
            assert!(is_valid_name(name), "{name}");
        }
        for name in ["", "a b", "a*", "\"", "a,b,c,d,e"] {
            assert!(!is_valid_name(name), "{name}");
        }
    }
}
