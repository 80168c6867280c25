//! Names that replace hashes and shortened names, as a trace lists them.

use rustc_hash::FxHashMap;

use crate::schema::ArgValue;
use crate::store::Store;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;

/// An argument with a hash, and the argument with the name.
type Hashed = (&'static str, &'static str);

pub(crate) const HISTOGRAM: Hashed = (
    "chrome_histogram_sample.name_hash",
    "chrome_histogram_sample.name",
);
pub(crate) const USER_ACTION: Hashed =
    ("chrome_user_event.action_hash", "chrome_user_event.action");
pub(crate) const MARK_SITE: Hashed = (
    "chrome_hashed_performance_mark.site_hash",
    "chrome_hashed_performance_mark.site",
);
pub(crate) const MARK: Hashed = (
    "chrome_hashed_performance_mark.mark_hash",
    "chrome_hashed_performance_mark.mark",
);
pub(crate) const TRIGGER: Hashed = ("chrome_trigger.name_hash", "chrome_trigger.name");

/// The maximum number of names.
const MAX_NAMES: usize = 1 << 20;

/// The names of a trace.
#[derive(Debug, Default)]
pub(crate) struct TranslationTracker {
    /// The names of each kind of hashes.
    hashes: Vec<(Hashed, FxHashMap<u64, StringId>)>,
    /// The names of tracks of processes.
    process_tracks: FxHashMap<StringId, StringId>,
    names: usize,
}

impl TranslationTracker {
    /// Names a hash.
    pub(crate) fn name_hash(&mut self, kind: Hashed, hash: u64, name: StringId) {
        if !self.count_name() {
            return;
        }
        let index = self.hashes.iter().position(|(known, _)| *known == kind);
        let index = index.unwrap_or_else(|| {
            self.hashes.push((kind, FxHashMap::default()));
            self.hashes.len() - 1
        });
        self.hashes[index].1.insert(hash, name);
    }

    /// Renames tracks of processes.
    pub(crate) fn rename_process_track(&mut self, from: StringId, to: StringId) {
        if self.count_name() {
            self.process_tracks.insert(from, to);
        }
    }

    /// Returns the name of a track of a process.
    pub(crate) fn process_track(&self, name: StringId) -> StringId {
        self.process_tracks.get(&name).copied().unwrap_or(name)
    }

    /// Adds the names of hashes to arguments.
    pub(crate) fn add_names(&self, store: &mut Store, args: &mut ArgSet) {
        for ((hash_key, name_key), names) in &self.hashes {
            let key = store.strings.intern(hash_key);
            if let Some(ArgValue::Uint(hash)) = args.get(key)
                && let Some(name) = names.get(&hash)
            {
                args.put(store, name_key, ArgValue::Text(*name));
            }
        }
    }

    fn count_name(&mut self) -> bool {
        self.names += 1;
        self.names <= MAX_NAMES
    }
}
