//! Arguments of rows of other tables.

mod columns;
mod saved;

use std::hash::Hasher;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use rustc_hash::{FxHashMap, FxHasher};

use self::saved::SavedRows;
use super::arg::{Arg, ArgTypes, ArgValue, TYPE_NAMES};
use super::slots::Slots;
use crate::column::{Bitmap, ColumnKind};
use crate::derived::{RawArgs, SchedLog};
use crate::strings::{StringId, StringPool};
use crate::table::{ColumnSpec, ID, TableSpec};

/// Arguments of rows of other tables.
///
/// The arguments of a row form a set: consecutive rows, of which the index of the first one is the
/// id of the set. Equal sets exist once. Only switches and wake-ups have a set for each event,
/// which is computed on first use.
///
/// Its columns are not stored as slices: each value is computed from a word, a type and the number
/// of its pair of keys, which take a third of the memory.
#[derive(Debug, Default)]
pub struct ArgsTable {
    /// Pairs of keys, by number.
    keys: Vec<(StringId, StringId)>,
    key_numbers: FxHashMap<(StringId, StringId), u32>,
    /// A cache of `key_numbers`, by key.
    recent_keys: Box<[u32; RECENT_KEYS]>,
    /// The number of the pair of keys of each row.
    row_keys: Vec<u32>,
    kinds: Vec<u8>,
    values: Vec<u64>,
    /// The rows in a file, if they are read from there.
    saved: Option<Box<SavedRows>>,
    /// The first row of each set, until the table is complete.
    starts: Vec<u32>,
    /// The first rows as a bit for each row. Set when the table is complete.
    begins: Bitmap,
    /// The types of the values of each pair of keys.
    types: OnceLock<Vec<ArgTypes>>,
    slots: Slots,
    type_names: [StringId; TYPE_NAMES.len()],
    /// The rows that have a value in `int_value`, and in `real_value`.
    valid: OnceLock<[Bitmap; 2]>,
    /// The log with the arguments of scheduler events, which follow the others.
    log: Option<Arc<SchedLog>>,
}

/// The number of entries in the cache of keys.
const RECENT_KEYS: usize = 32;

const fn column(
    name: &'static str,
    doc: &'static [&'static str],
    kind: ColumnKind,
    is_sorted: bool,
) -> ColumnSpec {
    ColumnSpec {
        name,
        doc,
        kind,
        is_nullable: !matches!(kind, ColumnKind::U32),
        is_sorted,
    }
}

impl ArgsTable {
    /// The name and columns of the table.
    pub const SPEC: TableSpec = TableSpec {
        name: "args",
        doc: &[" Arguments of rows of other tables, which refer to them by `arg_set_id`."],
        columns: &[
            ID,
            column(
                "arg_set_id",
                &[" The id of the set."],
                ColumnKind::U32,
                true,
            ),
            column(
                "flat_key",
                &[" The path of the key without array indexes."],
                ColumnKind::Text,
                false,
            ),
            column("key", &[" The path of the key."], ColumnKind::Text, false),
            column(
                "int_value",
                &[" The value, if it is an integer, an address or a boolean."],
                ColumnKind::I64,
                false,
            ),
            column(
                "string_value",
                &[" The value, if it is a text."],
                ColumnKind::Text,
                false,
            ),
            column(
                "real_value",
                &[" The value, if it is a floating-point number."],
                ColumnKind::F64,
                false,
            ),
            column(
                "value_type",
                &[" The type of the value."],
                ColumnKind::Text,
                false,
            ),
        ],
    };

    /// Returns an empty table.
    pub(crate) fn new(strings: &mut StringPool) -> Self {
        Self {
            type_names: TYPE_NAMES.map(|name| strings.intern(name)),
            ..Self::default()
        }
    }

    /// Returns the number of rows.
    pub fn len(&self) -> u32 {
        let computed = self.log.as_ref().map_or(0, |log| log.args());
        self.own_rows() as u32 + computed
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of rows that are not computed.
    #[inline]
    pub(crate) fn own_rows(&self) -> usize {
        match &self.saved {
            None => self.row_keys.len(),
            Some(saved) => saved.keys.len(),
        }
    }

    /// Returns the number of the pair of keys of a row, and the type and number of its value.
    #[inline]
    fn encoded(&self, row: usize) -> (usize, u8, u64) {
        match &self.saved {
            None => (
                self.row_keys[row] as usize,
                self.kinds[row],
                self.values[row],
            ),
            Some(saved) => (
                saved.keys.get(row) as usize,
                saved.kinds.get(row) as u8,
                saved.values.get(row) as u64,
            ),
        }
    }

    /// Sets the log from which arguments are computed.
    pub(crate) fn attach(&mut self, log: &Arc<SchedLog>) {
        if log.args() > 0 {
            self.log = Some(log.clone());
        }
    }

    #[inline]
    fn raw(&self) -> Option<RawArgs<'_>> {
        RawArgs::of(self.log.as_ref()?)
    }

    /// Returns the arguments of a set.
    pub fn set(&self, id: u32) -> impl Iterator<Item = Arg> {
        let rows = self.own_set(id);
        let raw = self.raw().filter(|_| rows.is_empty());
        let of_raw = raw.as_ref().map_or(0..0, |raw| raw.set(id));
        let raw = of_raw.filter_map(move |index| Some(raw?.arg(index).1));
        rows.map(|row| self.arg(row)).chain(raw)
    }

    /// Returns the rows of a set. Empty if the set is computed from the log.
    fn own_set(&self, id: u32) -> Range<usize> {
        let first = id as usize;
        if self.begins.is_empty() {
            let index = self.starts.binary_search(&id);
            return index.map_or(0..0, |index| first..self.end(index));
        }
        if !self.begins.get(first) {
            return 0..0;
        }
        // Sets are short.
        let mut end = first + 1;
        while end < self.own_rows() && !self.begins.get(end) {
            end += 1;
        }
        first..end
    }

    /// Returns the types of all values of a key in the trace.
    pub fn types(&self, key: StringId) -> ArgTypes {
        let of_own = self.types.get_or_init(|| {
            let mut types = vec![ArgTypes::default(); self.keys.len()];
            for row in 0..self.own_rows() {
                let (number, kind, _) = self.encoded(row);
                if let Some(types) = types.get_mut(number) {
                    types.0 |= 1 << kind;
                }
            }
            types
        });
        let own = of_own.iter().zip(&self.keys);
        let own = own
            .filter(|(_, keys)| keys.1 == key)
            .map(|(types, _)| types.0);
        let of_raw = self.raw().into_iter().flat_map(|raw| {
            let events = raw.parts().into_iter().filter(|part| part.rows() > 0);
            events.flat_map(|part| (0..part.args() as usize).map(move |n| part.arg(0, n)))
        });
        let of_raw = of_raw.filter(|arg| arg.key == key);
        let of_raw = of_raw.map(|arg| 1 << arg.value.encode().0);
        ArgTypes(own.chain(of_raw).fold(0, |all, types| all | types))
    }

    /// Returns the value of a key in a set.
    pub fn get(&self, set: u32, key: StringId) -> Option<ArgValue> {
        let arg = self.set(set).find(|arg| arg.key == key)?;
        Some(arg.value)
    }

    /// Returns the id of the set with these arguments, and adds it if it is new. Keys must be
    /// distinct.
    pub(crate) fn intern(&mut self, args: &[Arg]) -> u32 {
        if self.slots.is_full_for(self.starts.len()) {
            self.grow(1);
        }
        self.intern_hashed(hash(args.iter().map(parts)), args)
    }

    /// Adds several sets, and appends their ids to `numbers`. `ends` contains the ends of the sets
    /// in `args`.
    pub(crate) fn intern_all(&mut self, args: &[Arg], ends: &[usize], numbers: &mut Vec<u32>) {
        if self.slots.is_full_for(self.starts.len() + ends.len()) {
            self.grow(ends.len());
        }
        let mut start = 0;
        let mut hashes = [0; SETS_TOGETHER];
        for ends in ends.chunks(SETS_TOGETHER) {
            let mut from = start;
            for (end, target) in ends.iter().zip(&mut hashes) {
                *target = hash(args[from..*end].iter().map(parts));
                from = *end;
            }
            // The cache misses of all slots overlap.
            self.slots.touch(&hashes[..ends.len()]);
            for (end, hash) in ends.iter().zip(hashes) {
                numbers.push(self.intern_hashed(hash, &args[start..*end]));
                start = *end;
            }
        }
    }

    #[inline]
    fn intern_hashed(&mut self, hash: u64, args: &[Arg]) -> u32 {
        let is_same = |index: usize| {
            let rows = self.starts[index] as usize..self.end(index);
            rows.len() == args.len()
                && rows
                    .zip(args)
                    .all(|(row, arg)| self.parts(row) == parts(arg))
        };
        let slot = match self.slots.find(hash, is_same) {
            Ok(index) => return self.starts[index],
            Err(slot) => slot,
        };
        let start = self.row_keys.len() as u32;
        self.slots.set(slot, hash, self.starts.len());
        self.starts.push(start);
        for arg in args {
            let number = self.key_number((arg.flat_key, arg.key));
            let (kind, value) = arg.value.encode();
            self.row_keys.push(number);
            self.kinds.push(kind);
            self.values.push(value);
        }
        start
    }

    /// Returns the number of a pair of keys.
    #[inline]
    fn key_number(&mut self, keys: (StringId, StringId)) -> u32 {
        let recent = &mut self.recent_keys[keys.1.raw() as usize % RECENT_KEYS];
        if self.keys.get(*recent as usize) == Some(&keys) {
            return *recent;
        }
        let all = &mut self.keys;
        *recent = *self.key_numbers.entry(keys).or_insert_with(|| {
            all.push(keys);
            all.len() as u32 - 1
        });
        *recent
    }

    #[inline]
    fn parts(&self, row: usize) -> Parts {
        let (number, kind, value) = self.encoded(row);
        let (_, key) = self.keys[number];
        (key, kind, value)
    }

    fn arg(&self, row: usize) -> Arg {
        let (number, kind, value) = self.encoded(row);
        let keys = self.keys.get(number).copied();
        let (flat_key, key) = keys.unwrap_or_default();
        Arg {
            flat_key,
            key,
            value: ArgValue::decode(kind, value),
        }
    }

    /// Returns the end of a set.
    fn end(&self, index: usize) -> usize {
        let next = self.starts.get(index + 1).map(|start| *start as usize);
        next.unwrap_or(self.row_keys.len())
    }

    /// Grows the hash table for more sets.
    fn grow(&mut self, more: usize) {
        let mut slots = Slots::for_more_than(self.starts.len() + more);
        for index in 0..self.starts.len() {
            let rows = self.starts[index] as usize..self.end(index);
            slots.add(hash(rows.map(|row| self.parts(row))), index);
        }
        self.slots = slots;
    }

    /// Frees unused capacity.
    pub(crate) fn shrink(&mut self) {
        self.row_keys.shrink_to_fit();
        self.kinds.shrink_to_fit();
        self.values.shrink_to_fit();
        self.begins = Bitmap::default();
        for start in &self.starts {
            self.begins.pad(*start as usize);
            self.begins.push(true);
        }
        self.begins.pad(self.row_keys.len());
        self.begins.shrink();
        self.starts = Vec::new();
        self.slots = Slots::default();
        self.key_numbers = FxHashMap::default();
    }
}

/// The number of sets whose slots are loaded together.
const SETS_TOGETHER: usize = 32;

/// The key of an argument, and the type and number of its value. Floating-point numbers are
/// compared by their bits.
type Parts = (StringId, u8, u64);

#[inline]
fn parts(arg: &Arg) -> Parts {
    let (kind, value) = arg.value.encode();
    (arg.key, kind, value)
}

#[inline]
fn hash(args: impl Iterator<Item = Parts>) -> u64 {
    let mut hasher = FxHasher::default();
    for (key, kind, value) in args {
        hasher.write_u64(u64::from(key.raw()) << 8 | u64::from(kind));
        hasher.write_u64(value);
    }
    // Spreads entropy to all bits.
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let hash = hasher.finish();
    (hash ^ hash >> 32).wrapping_mul(ODD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::Value;
    use crate::table::Table;

    #[test]
    fn query_004_equal_sets_are_there_once() {
        let mut strings = StringPool::default();
        let mut table = ArgsTable::new(&mut strings);
        let (a, b) = (strings.intern("a"), strings.intern("b[0]"));
        let flat = strings.intern("b");
        let one = |value| Arg {
            flat_key: a,
            key: a,
            value,
        };
        let two = Arg {
            flat_key: flat,
            key: b,
            value: ArgValue::Real(0.5),
        };
        let first = table.intern(&[one(ArgValue::Int(1)), two]);
        let other = table.intern(&[one(ArgValue::Uint(1))]);
        assert_eq!((first, other), (0, 2));
        for n in 0..1000 {
            table.intern(&[one(ArgValue::Int(n + 5))]);
        }
        assert_eq!(table.intern(&[one(ArgValue::Int(1)), two]), 0);
        assert_eq!(table.intern(&[one(ArgValue::Uint(1))]), 2);
        assert_eq!(
            table.set(0).collect::<Vec<_>>(),
            [one(ArgValue::Int(1)), two]
        );
        assert_eq!(table.set(1).count(), 0);
        assert_eq!(table.get(0, b), Some(ArgValue::Real(0.5)));
        let column = |name| table.column_by_name(name).expect("column");
        assert_eq!(column("arg_set_id").get(1), Value::Int(0));
        assert_eq!(column("flat_key").get(1), Value::Text(flat));
        assert_eq!(column("real_value").get(1), Value::Real(0.5));
        assert_eq!(column("int_value").get(1), Value::Null);
        let kind = column("value_type").get(2);
        assert_eq!(kind, Value::Text(strings.find("uint").expect("kind")));
    }
}
