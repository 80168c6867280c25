//! Sets of arguments.

use crate::schema::{Arg, ArgValue, TableId};
use crate::store::Store;
use crate::strings::StringId;

/// A set of more arguments is cut.
const MAX_ARGS: usize = 1 << 16;
/// Elements of more arrays than this are counted from 0 each time.
const MAX_ARRAYS: usize = 256;

/// Bytes of keys that the arguments of one event may have for each of its own, and beside that.
const KEY_BYTES: usize = 64;
const FREE_KEY_BYTES: usize = 1 << 12;

/// Returns how many bytes the keys of an event's arguments may have, if the event has so many. A
/// key repeats those above it, so that a small event could ask for any number.
pub(crate) fn key_room(event_bytes: usize) -> usize {
    FREE_KEY_BYTES + KEY_BYTES * event_bytes
}

/// The lengths of arrays, by their keys.
pub(crate) type Arrays = Vec<(StringId, usize)>;

/// Arguments of one row, as they are collected.
#[derive(Debug, Clone, Default)]
pub(crate) struct ArgSet {
    args: Vec<Arg>,
    arrays: Arrays,
}

impl ArgSet {
    /// Adds an argument. If there is one with this key, it gets the new value.
    #[inline]
    pub(crate) fn add(&mut self, flat_key: StringId, key: StringId, value: ArgValue) {
        let arg = Arg {
            flat_key,
            key,
            value,
        };
        // Large sets come from arrays, whose keys differ by themselves.
        let recent = self.args.len().saturating_sub(64);
        let known = self.args[recent..]
            .iter()
            .position(|known| known.key == key);
        match known {
            Some(place) => self.args[recent + place] = arg,
            None if self.args.len() < MAX_ARGS => self.args.push(arg),
            None => {}
        }
    }

    /// Adds an argument with a key that is no array.
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

    /// Goes on with arrays of another set.
    pub(crate) fn set_arrays(&mut self, arrays: Arrays) {
        self.arrays = arrays;
    }

    /// Returns the length of an array.
    pub(crate) fn array_length(&self, key: StringId) -> usize {
        let known = self.arrays.iter().find(|(known, _)| *known == key);
        known.map_or(0, |(_, length)| *length)
    }

    /// An array has one more element.
    pub(crate) fn lengthen_array(&mut self, key: StringId) {
        let place = self.arrays.iter().position(|(known, _)| *known == key);
        match place {
            Some(place) => self.arrays[place].1 += 1,
            None if self.arrays.len() < MAX_ARRAYS => self.arrays.push((key, 1)),
            None => {}
        }
    }

    /// Returns the value of a key.
    pub(crate) fn get(&self, key: StringId) -> Option<ArgValue> {
        let arg = self.args.iter().find(|arg| arg.key == key)?;
        Some(arg.value)
    }

    /// Returns true if there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.args.is_empty()
    }

    /// Forgets all arguments.
    pub(crate) fn clear(&mut self) {
        self.args.clear();
        self.arrays.clear();
    }

    /// Puts the set into the table, and returns its id; `None` if it is empty or not wanted. The
    /// set is empty then.
    pub(crate) fn finish(&mut self, store: &mut Store) -> Option<u32> {
        let id = (!self.args.is_empty() && store.wants(TableId::args))
            .then(|| store.tables.args.intern(&self.args));
        self.clear();
        id
    }
}
