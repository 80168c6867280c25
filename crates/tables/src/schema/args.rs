//! Arguments of rows of other tables.

use std::hash::Hasher;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use rustc_hash::{FxHashMap, FxHasher};

use super::arg::{Arg, ArgTypes, ArgValue, TYPE_NAMES};
use super::slots::Slots;
use crate::column::{Bitmap, ColumnKind, ColumnView, Numbers, Source, Values};
use crate::derived::{RawArgs, RawPart, SchedLog};
use crate::strings::{StringId, StringPool};
use crate::table::{ColumnSpec, ID, Table, TableSpec};

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
    /// The first row of each set.
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

/// The indexes of columns in [`ArgsTable::SPEC`].
mod column_index {
    pub(super) const SET: usize = 1;
    pub(super) const FLAT_KEY: usize = 2;
    pub(super) const KEY: usize = 3;
    pub(super) const INT: usize = 4;
    pub(super) const TEXT: usize = 5;
    pub(super) const REAL: usize = 6;
    pub(super) const KIND: usize = 7;
}

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
        self.row_keys.len() as u32 + computed
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
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
        while end < self.row_keys.len() && !self.begins.get(end) {
            end += 1;
        }
        first..end
    }

    /// Returns the types of all values of a key in the trace.
    pub fn types(&self, key: StringId) -> ArgTypes {
        let of_own = self.types.get_or_init(|| {
            let mut types = vec![ArgTypes::default(); self.keys.len()];
            for (number, kind) in self.row_keys.iter().zip(&self.kinds) {
                types[*number as usize].0 |= 1 << kind;
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
        let (_, key) = self.keys[self.row_keys[row] as usize];
        (key, self.kinds[row], self.values[row])
    }

    fn arg(&self, row: usize) -> Arg {
        let (flat_key, key) = self.keys[self.row_keys[row] as usize];
        Arg {
            flat_key,
            key,
            value: ArgValue::decode(self.kinds[row], self.values[row]),
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

    /// Returns the set and the argument of a row, which may be computed from the log.
    fn row(&self, row: usize) -> Option<(u32, Arg)> {
        match (row as u32).checked_sub(self.row_keys.len() as u32) {
            None => {
                let index = self.starts.partition_point(|start| *start as usize <= row);
                Some((self.starts[index.checked_sub(1)?], self.arg(row)))
            }
            Some(index) if row < self.rows() => Some(self.raw()?.arg(index)),
            Some(_) => None,
        }
    }

    /// Returns the integer of a column for an argument.
    fn number(&self, index: usize, (set, arg): (u32, Arg)) -> i64 {
        let kind = || usize::from(arg.value.encode().0);
        match (index, arg.value) {
            (column_index::SET, _) => set.into(),
            (column_index::FLAT_KEY, _) => arg.flat_key.raw().into(),
            (column_index::KEY, _) => arg.key.raw().into(),
            (column_index::INT, value) => value.as_int().unwrap_or(0),
            (column_index::TEXT, ArgValue::Text(text) | ArgValue::Json(text)) => text.raw().into(),
            (column_index::REAL, ArgValue::Real(value)) => value.to_bits() as i64,
            (column_index::KIND, _) => self.type_names[kind()].raw().into(),
            _ => 0,
        }
    }

    /// Returns the rows that have a value in `int_value`, and in `real_value`.
    fn valid(&self) -> &[Bitmap; 2] {
        self.valid.get_or_init(|| {
            let own = || (0..self.row_keys.len()).map(|row| self.arg(row).value);
            let mut int: Bitmap = own().map(|value| value.as_int().is_some()).collect();
            let is_real = |value| matches!(value, ArgValue::Real(_));
            let mut real: Bitmap = own().map(is_real).collect();
            for part in self.raw().iter().flat_map(RawArgs::parts) {
                // The same for each event.
                let args = part.args() as usize;
                let numbers = (0..args).map(|number| u64::from(!part.is_text(number)) << number);
                let bits = numbers.fold(0, |bits, bit| bits | bit);
                for _ in 0..part.rows() / part.args() {
                    int.push_bits(bits, args);
                }
            }
            real.pad(self.rows());
            int.shrink();
            [int, real]
        })
    }

    /// Appends the integers of a column for arguments of scheduler events, which are counted from
    /// 0.
    fn read_raw(&self, index: usize, part: RawPart<'_>, rows: Range<u32>, out: &mut Vec<i64>) {
        let args = part.args();
        let (mut from, to) = (
            rows.start.max(part.start),
            rows.end.min(part.start + part.rows()),
        );
        if from >= to {
            return;
        }
        let end = out.len() + (to - from) as usize;
        from -= part.start;
        let to = to - part.start;
        let before = from % args;
        if before > 0 {
            // The range may begin within an event.
            let mut event = Vec::with_capacity(args as usize);
            self.read_events(index, part, from / args..from / args + 1, &mut event);
            out.extend_from_slice(&event[before as usize..]);
            from += args - before;
        }
        if from < to {
            self.read_events(index, part, from / args..to.div_ceil(args), out);
        }
        // It may end within an event, too.
        out.truncate(end);
    }

    /// Appends the integers of a column for all arguments of some scheduler events.
    fn read_events(&self, index: usize, part: RawPart<'_>, events: Range<u32>, out: &mut Vec<i64>) {
        let args = part.args();
        let begin = out.len();
        match index {
            column_index::SET => {
                out.resize(begin + events.len() * args as usize, 0);
                let targets = out[begin..].chunks_exact_mut(args as usize);
                for (targets, event) in targets.zip(events) {
                    targets.fill((part.set + event * args).into());
                }
            }
            column_index::INT | column_index::TEXT => {
                let events = events.start as usize..events.end as usize;
                let args = args as usize;
                out.resize(begin + events.len() * args, 0);
                for number in 0..args {
                    if part.is_text(number) == (index == column_index::TEXT) {
                        let values = part.values(number, events.clone());
                        let targets = out[begin + number..].iter_mut().step_by(args);
                        targets
                            .zip(values)
                            .for_each(|(target, value)| *target = value);
                    }
                }
            }
            _ => {
                // The same for each event.
                let numbers = (0..args as usize).map(|number| part.arg(0, number));
                let numbers = numbers.map(|arg| self.number(index, (part.set, arg)));
                let numbers: Vec<i64> = numbers.collect();
                let mut left = events.len() * numbers.len();
                let many = numbers.repeat(EVENTS_TOGETHER.min(events.len()));
                while left > 0 {
                    let some = &many[..left.min(many.len())];
                    out.extend_from_slice(some);
                    left -= some.len();
                }
            }
        }
    }

    /// Frees unused capacity.
    pub(crate) fn shrink(&mut self) {
        self.row_keys.shrink_to_fit();
        self.kinds.shrink_to_fit();
        self.values.shrink_to_fit();
        self.starts.shrink_to_fit();
        self.begins = Bitmap::default();
        for start in &self.starts {
            self.begins.pad(*start as usize);
            self.begins.push(true);
        }
        self.begins.pad(self.row_keys.len());
        self.begins.shrink();
        self.slots = Slots::default();
        self.key_numbers = FxHashMap::default();
    }
}

/// The number of sets whose slots are loaded together.
const SETS_TOGETHER: usize = 32;

/// The number of events for which equal values are copied together.
const EVENTS_TOGETHER: usize = 64;

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

impl Table for ArgsTable {
    fn spec(&self) -> &'static TableSpec {
        const { &Self::SPEC }
    }

    fn rows(&self) -> usize {
        self.len() as usize
    }

    fn column(&self, index: usize) -> Option<ColumnView<'_>> {
        if index == 0 {
            return Some(ColumnView {
                values: Values::Id(self.rows()),
                validity: None,
            });
        }
        let spec = Self::SPEC.columns.get(index)?;
        let validity = match index {
            column_index::INT => Some(&self.valid()[0]),
            column_index::REAL => Some(&self.valid()[1]),
            _ => None,
        };
        if validity.is_some_and(|valid| valid.words().iter().all(|word| *word == 0)) {
            return Some(ColumnView {
                values: Values::Null(self.rows()),
                validity: None,
            });
        }
        Some(ColumnView {
            values: Values::Numbers(Numbers::new(self, index, spec.kind)),
            validity,
        })
    }

    fn max_memory(&self) -> usize {
        let valid = match self.valid.get() {
            None => 2 * 8 * self.rows().div_ceil(64),
            Some(_) => 0,
        };
        self.memory() + valid
    }

    fn memory(&self) -> usize {
        let own = 4 * self.row_keys.capacity()
            + self.kinds.capacity()
            + 8 * self.values.capacity()
            + 4 * self.starts.capacity()
            + self.begins.memory()
            + self.slots.memory()
            + 8 * self.keys.capacity();
        let valid = self.valid.get().into_iter().flatten();
        own + valid.map(Bitmap::memory).sum::<usize>()
    }
}

impl Source for ArgsTable {
    fn len(&self) -> usize {
        self.rows()
    }

    fn get(&self, index: usize, row: usize) -> i64 {
        self.row(row).map_or(0, |found| self.number(index, found))
    }

    fn read(&self, index: usize, rows: Range<usize>, out: &mut Vec<i64>) {
        let rows = rows.start..rows.end.min(self.rows());
        let own = rows.start..rows.end.min(self.row_keys.len());
        let mut next = self
            .starts
            .partition_point(|start| *start as usize <= own.start);
        for row in own.clone() {
            while self
                .starts
                .get(next)
                .is_some_and(|start| *start as usize <= row)
            {
                next += 1;
            }
            let set = next.checked_sub(1).map_or(0, |last| self.starts[last]);
            out.push(self.number(index, (set, self.arg(row))));
        }
        if let Some(raw) = self.raw() {
            let raw_index = |row: usize| row.saturating_sub(self.row_keys.len()) as u32;
            let rows = raw_index(rows.start)..raw_index(rows.end);
            for part in raw.parts() {
                self.read_raw(index, part, rows.clone(), out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::Value;

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
