//! Sets of arguments.

use crate::schema::{Arg, ArgValue, TableId};
use crate::store::Store;
use crate::strings::StringId;

/// A set of more arguments is cut.
const MAX_ARGS: usize = 1 << 16;

/// Arguments of one row, as they are collected.
#[derive(Debug, Clone, Default)]
pub(crate) struct ArgSet(Vec<Arg>);

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
        let recent = self.0.len().saturating_sub(64);
        let known = self.0[recent..].iter().position(|known| known.key == key);
        match known {
            Some(place) => self.0[recent + place] = arg,
            None if self.0.len() < MAX_ARGS => self.0.push(arg),
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
        for arg in &other.0 {
            self.add(arg.flat_key, arg.key, arg.value);
        }
    }

    /// Returns the value of a key.
    pub(crate) fn get(&self, key: StringId) -> Option<ArgValue> {
        let arg = self.0.iter().find(|arg| arg.key == key)?;
        Some(arg.value)
    }

    /// Returns true if there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets all arguments.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Puts the set into the table, and returns its id; `None` if it is empty or not wanted. The
    /// set is empty then.
    pub(crate) fn finish(&mut self, store: &mut Store) -> Option<u32> {
        let id = (!self.0.is_empty() && store.wants(TableId::args))
            .then(|| store.tables.args.intern(&self.0));
        self.0.clear();
        id
    }
}
