//! Interning of names.

use ferretto_format::InternedData;
use ferretto_proto::fields::interned_data;
use rustc_hash::FxHashMap;

/// The bytes of names that are remembered. Beyond it, interning restarts.
const MAX_BYTES: usize = 4 << 20;

/// The iids of names, and the interned data of new ones.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// The iids by field of `InternedData` and name.
    known: FxHashMap<(u32, Box<str>), u64>,
    bytes: usize,
    new: InternedData,
}

impl Names {
    /// Forgets all names if they take too much memory. Returns true if the sequence has to restart.
    pub(super) fn restart_if_full(&mut self) -> bool {
        let is_full = self.bytes > MAX_BYTES;
        if is_full {
            *self = Self::default();
        }
        is_full
    }

    /// Returns the entries to write into the current packet.
    pub(super) fn new_entries(&mut self) -> &mut InternedData {
        &mut self.new
    }

    pub(super) fn event(&mut self, name: &str) -> u64 {
        self.number(interned_data::EVENT_NAMES, name)
    }

    pub(super) fn category(&mut self, name: &str) -> u64 {
        self.number(interned_data::EVENT_CATEGORIES, name)
    }

    pub(super) fn arg(&mut self, name: &str) -> u64 {
        self.number(interned_data::DEBUG_ANNOTATION_NAMES, name)
    }

    fn number(&mut self, table: u32, name: &str) -> u64 {
        let key = (table, Box::from(name));
        if let Some(number) = self.known.get(&key) {
            return *number;
        }
        let number = self.known.len() as u64 + 1;
        self.bytes += name.len() + 64;
        self.known.insert(key, number);
        self.new.add_text(table, number, name.as_bytes());
        number
    }
}
