//! The callsites of spans and events.

use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use ferretto::Category;
use ferretto::track_event::{Priority, SourceLocation};
use rustc_hash::FxHashMap;
use tracing_core::{Level, Metadata};

use crate::names::{self, Special};
use crate::options::{Options, Spans};

/// The size of the first table; each further table is twice as large.
const FIRST: usize = 512;

/// The maximum number of tables. They have space for millions of callsites; others are looked up
/// under the lock.
const TABLES: usize = 14;

/// The maximum number of categories for targets that are only known at run time, such as those of
/// the crate `log`.
#[cfg(feature = "log")]
const MAX_DYNAMIC: usize = 1024;

/// A callsite of spans or events.
#[derive(Debug)]
pub(crate) struct Callsite {
    pub(crate) metadata: &'static Metadata<'static>,
    pub(crate) category: &'static Category,
    pub(crate) level: &'static str,
    pub(crate) priority: Priority,
    pub(crate) spans: Spans,
    /// True if some fields are counters or flows.
    pub(crate) has_special: bool,
    /// True if some fields are arguments.
    pub(crate) has_plain: bool,
    /// True if there is a message.
    pub(crate) has_message: bool,
    pub(crate) location: Option<&'static SourceLocation>,
    /// True if its spans only have a name.
    pub(crate) is_bare: bool,
    /// True if some fields are arguments, counters or flows.
    pub(crate) has_values: bool,
    /// True if its spans only have a name and values.
    pub(crate) is_plain: bool,
    /// The names of the fields.
    fields: Box<[&'static str]>,
}

/// The known callsites. Lookups take no locks.
pub(crate) struct Callsites {
    tables: [OnceLock<Table>; TABLES],
    rare: Mutex<Rare>,
    /// True if any span follows from another.
    has_follows: AtomicBool,
}

/// A hash table with open addressing by the address of a callsite's metadata. Entries are never
/// removed.
struct Table {
    /// The addresses, or 0, and their entries.
    slots: Box<[(AtomicUsize, OnceLock<&'static Callsite>)]>,
}

/// The data for adding callsites.
#[derive(Debug, Default)]
struct Rare {
    /// The number of entries in each table.
    used: [usize; TABLES],
    /// The callsites that do not fit in the tables.
    more: FxHashMap<usize, &'static Callsite>,
    /// The categories by target and level.
    categories: FxHashMap<(&'static str, Level), &'static Category>,
    #[cfg(feature = "log")]
    dynamic: usize,
}

impl Table {
    fn new(size: usize) -> Self {
        Self {
            slots: (0..size).map(|_| Default::default()).collect(),
        }
    }

    #[inline]
    fn get(&self, key: usize) -> Option<&'static Callsite> {
        let mask = self.slots.len() - 1;
        let mut at = start(key);
        loop {
            let (address, callsite) = &self.slots[at & mask];
            match address.load(Ordering::Acquire) {
                0 => return None,
                found if found == key => return callsite.get().copied(),
                _ => at += 1,
            }
        }
    }

    /// Adds an entry. The table must not be full, and the caller must hold the lock.
    fn insert(&self, key: usize, callsite: &'static Callsite) {
        let mask = self.slots.len() - 1;
        let mut at = start(key);
        while self.slots[at & mask].0.load(Ordering::Relaxed) != 0 {
            at += 1;
        }
        let (address, entry) = &self.slots[at & mask];
        let _ = entry.set(callsite);
        address.store(key, Ordering::Release);
    }
}

/// Returns the index at which the search for a key begins, before masking.
#[inline]
fn start(key: usize) -> usize {
    let mixed = (key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as usize
}

impl Callsites {
    pub(crate) fn new() -> Self {
        Self {
            tables: [const { OnceLock::new() }; TABLES],
            rare: Mutex::default(),
            has_follows: AtomicBool::new(false),
        }
    }

    /// Returns true if spans without fields may have stored data.
    #[inline]
    pub(crate) fn has_follows(&self) -> bool {
        self.has_follows.load(Ordering::Relaxed)
    }

    pub(crate) fn note_follows(&self) {
        self.has_follows.store(true, Ordering::Relaxed);
    }

    /// Returns the entry of a callsite, adding it if needed.
    #[inline]
    pub(crate) fn get(
        &self,
        metadata: &'static Metadata<'static>,
        options: &Options,
    ) -> &'static Callsite {
        let key = ptr::from_ref(metadata).addr();
        for table in &self.tables {
            match table.get().map(|table| table.get(key)) {
                Some(None) => {}
                Some(Some(callsite)) => return callsite,
                None => break,
            }
        }
        self.add(key, metadata, options)
    }

    /// Returns the entry of the callsite whose metadata is at an address.
    pub(crate) fn find(&self, address: usize) -> Option<&'static Callsite> {
        let known = self
            .tables
            .iter()
            .find_map(|table| table.get()?.get(address));
        known.or_else(|| self.lock().more.get(&address).copied())
    }

    #[cold]
    fn add(
        &self,
        key: usize,
        metadata: &'static Metadata<'static>,
        options: &Options,
    ) -> &'static Callsite {
        let mut rare = self.lock();
        let known = self.tables.iter().find_map(|table| table.get()?.get(key));
        if let Some(callsite) = known.or_else(|| rare.more.get(&key).copied()) {
            return callsite;
        }
        let category = rare.category(metadata.target(), *metadata.level());
        let callsite: &'static Callsite =
            Box::leak(Box::new(Callsite::new(metadata, category, options)));
        // Tables are filled up to one half.
        match (0..TABLES).find(|&index| rare.used[index] < FIRST << index >> 1) {
            Some(index) => {
                rare.used[index] += 1;
                let table = self.tables[index].get_or_init(|| Table::new(FIRST << index));
                table.insert(key, callsite);
            }
            None => {
                rare.more.insert(key, callsite);
            }
        }
        callsite
    }

    /// Returns the category of events whose target is only known at run time.
    #[cfg(feature = "log")]
    pub(crate) fn dynamic_category(&self, target: &str, level: Level) -> &'static Category {
        let mut rare = self.lock();
        if let Some(category) = rare.categories.get(&(target, level)) {
            return category;
        }
        let target: &'static str = if rare.dynamic < MAX_DYNAMIC {
            rare.dynamic += 1;
            target.to_owned().leak()
        } else {
            "log"
        };
        rare.category(target, level)
    }

    fn lock(&self) -> MutexGuard<'_, Rare> {
        self.rare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Callsites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callsites").finish_non_exhaustive()
    }
}

impl Rare {
    fn category(&mut self, target: &'static str, level: Level) -> &'static Category {
        self.categories.entry((target, level)).or_insert_with(|| {
            let category: &'static Category =
                Box::leak(Box::new(Category::new(target).tags(tags(level))));
            category.register();
            category
        })
    }
}

/// Returns the tags of a level's category. Categories with the tags `slow` and `debug` are only
/// recorded on request.
fn tags(level: Level) -> &'static [&'static str] {
    match level {
        Level::ERROR => &["error"],
        Level::WARN => &["warn"],
        Level::INFO => &["info"],
        Level::DEBUG => &["debug"],
        Level::TRACE => &["trace", "slow"],
    }
}

impl Callsite {
    /// Returns the name of a field.
    #[inline]
    pub(crate) fn field(&self, index: u8) -> &'static str {
        self.fields.get(usize::from(index)).copied().unwrap_or("")
    }

    fn new(
        metadata: &'static Metadata<'static>,
        category: &'static Category,
        options: &Options,
    ) -> Self {
        let (mut has_special, mut has_plain, mut has_message) = (false, false, false);
        for field in metadata.fields() {
            match names::special(field.name()) {
                Special::None => has_plain = true,
                Special::Message => has_message = true,
                _ => has_special = true,
            }
        }
        let level = *metadata.level();
        let spans = (options.spans)(metadata);
        let location = options.locations.then(|| location(metadata)).flatten();
        let is_plain = !has_special && spans == Spans::Threads && location.is_none();
        Self {
            metadata,
            category,
            level: level.as_str(),
            priority: priority(level),
            spans,
            has_special,
            has_plain,
            has_message,
            location,
            is_bare: is_plain && !(has_plain || has_message),
            has_values: has_plain || has_special,
            is_plain,
            fields: metadata.fields().iter().map(|field| field.name()).collect(),
        }
    }
}

pub(crate) fn priority(level: Level) -> Priority {
    match level {
        Level::ERROR => Priority::Error,
        Level::WARN => Priority::Warn,
        Level::INFO => Priority::Info,
        Level::DEBUG => Priority::Debug,
        Level::TRACE => Priority::Verbose,
    }
}

fn location(metadata: &'static Metadata<'static>) -> Option<&'static SourceLocation> {
    let location = SourceLocation {
        file: metadata.file()?,
        function: metadata.module_path().unwrap_or_default(),
        line: metadata.line().unwrap_or_default(),
    };
    Some(Box::leak(Box::new(location)))
}
