//! Sets of arguments.

use crate::schema::{Arg, ArgValue, TableId};
use crate::store::Store;
use crate::strings::StringId;
use crate::trackers::waiting_args::Owner;

/// The maximum number of arguments of a set.
const MAX_ARGS: usize = 1 << 16;
/// The maximum number of arrays. Elements of further arrays are counted from 0 each time.
const MAX_ARRAYS: usize = 256;

/// The number of bytes of keys that the arguments of an event may have for each of its own bytes,
/// and in addition.
const KEY_BYTES: usize = 64;
const FREE_KEY_BYTES: usize = 1 << 12;

/// Returns the maximum size of the keys of an event with this size. A key repeats the keys above
/// it, so a small event could otherwise have keys of any size.
pub(crate) fn key_budget(event_bytes: usize) -> usize {
    FREE_KEY_BYTES + KEY_BYTES * event_bytes
}

/// The lengths of arrays, by their keys.
pub(crate) type Arrays = Vec<(StringId, usize)>;

/// The arguments of one row.
#[derive(Debug, Clone, Default)]
pub(crate) struct ArgSet {
    args: Vec<Arg>,
    arrays: Arrays,
}

impl ArgSet {
    /// Adds an argument. Replaces the value of an existing key.
    #[inline]
    pub(crate) fn add(&mut self, flat_key: StringId, key: StringId, value: ArgValue) {
        let arg = Arg {
            flat_key,
            key,
            value,
        };
        // Large sets come from arrays, whose keys are distinct.
        let recent = self.args.len().saturating_sub(64);
        let known = self.args[recent..]
            .iter()
            .position(|known| known.key == key);
        match known {
            Some(index) => self.args[recent + index] = arg,
            None if self.args.len() < MAX_ARGS => self.args.push(arg),
            None => {}
        }
    }

    /// Adds an argument whose key is not in the set.
    #[inline]
    pub(crate) fn add_new(&mut self, flat_key: StringId, key: StringId, value: ArgValue) {
        if self.args.len() < MAX_ARGS {
            self.args.push(Arg {
                flat_key,
                key,
                value,
            });
        }
    }

    /// Adds an argument with a key outside of arrays.
    pub(crate) fn put(&mut self, store: &mut Store, key: &str, value: ArgValue) {
        let key = store.strings.intern(key);
        self.add(key, key, value);
    }

    /// Adds a text.
    pub(crate) fn text(&mut self, store: &mut Store, key: &str, text: &str) {
        let text = store.strings.intern(text);
        self.put(store, key, ArgValue::Text(text));
    }

    /// Adds a signed integer.
    pub(crate) fn int(&mut self, store: &mut Store, key: &str, value: i64) {
        self.put(store, key, ArgValue::Int(value));
    }

    /// Adds all arguments of another set.
    pub(crate) fn append(&mut self, other: &Self) {
        for arg in &other.args {
            self.add(arg.flat_key, arg.key, arg.value);
        }
        if !other.arrays.is_empty() {
            self.arrays.clone_from(&other.arrays);
        }
    }

    /// Returns the lengths of all arrays.
    pub(crate) fn arrays(&self) -> Arrays {
        self.arrays.clone()
    }

    /// Continues arrays of another set.
    pub(crate) fn set_arrays(&mut self, arrays: Arrays) {
        self.arrays = arrays;
    }

    /// Returns the length of an array.
    pub(crate) fn array_length(&self, key: StringId) -> usize {
        let known = self.arrays.iter().find(|(known, _)| *known == key);
        known.map_or(0, |(_, length)| *length)
    }

    /// Increments the length of an array.
    pub(crate) fn lengthen_array(&mut self, key: StringId) {
        let index = self.arrays.iter().position(|(known, _)| *known == key);
        match index {
            Some(index) => self.arrays[index].1 += 1,
            None if self.arrays.len() < MAX_ARRAYS => self.arrays.push((key, 1)),
            None => {}
        }
    }

    /// Returns the value of a key.
    pub(crate) fn get(&self, key: StringId) -> Option<ArgValue> {
        let arg = self.args.iter().find(|arg| arg.key == key)?;
        Some(arg.value)
    }

    /// Removes all arguments.
    pub(crate) fn clear(&mut self) {
        self.args.clear();
        self.arrays.clear();
    }

    /// Moves the arguments into the table. Returns the id of the set; `None` if it is empty or not
    /// wanted.
    pub(crate) fn finish(&mut self, store: &mut Store) -> Option<u32> {
        let id = (!self.args.is_empty() && store.wants(TableId::args)).then(|| {
            store.store_args();
            store.tables.args.intern(&self.args)
        });
        self.clear();
        id
    }

    /// Adds the set to the table later, together with others, and sets its id in the owner's row.
    /// The set is empty afterwards.
    #[inline]
    pub(crate) fn finish_later(&mut self, store: &mut Store, owner: Owner) {
        if !self.args.is_empty() && store.wants(TableId::args) {
            let waiting = &mut store.waiting_args;
            waiting.push(&mut store.tables, &self.args, owner);
        }
        self.clear();
    }
}
