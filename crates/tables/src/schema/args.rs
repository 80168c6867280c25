//! Keys and values that belong to rows of other tables.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use rustc_hash::{FxHashMap, FxHasher};

use crate::column::{Bitmap, ColumnKind, ColumnView, Numbers, Source, Values};
use crate::derived::{RawArgs, RawPart, SchedLog};
use crate::strings::{StringId, StringPool};
use crate::table::{ColumnSpec, ID, Table, TableSpec};

/// The value of an argument.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ArgValue {
    /// No value.
    Null,
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// True or false.
    Bool(bool),
    /// An address.
    Pointer(u64),
    /// A floating-point number.
    Real(f64),
    /// A text.
    Text(StringId),
    /// A text that is JSON.
    Json(StringId),
}

const TYPE_NAMES: [&str; 8] = [
    "null", "int", "uint", "bool", "pointer", "real", "string", "json",
];

impl ArgValue {
    fn encode(self) -> (u8, u64) {
        match self {
            Self::Null => (0, 0),
            Self::Int(value) => (1, value as u64),
            Self::Uint(value) => (2, value),
            Self::Bool(value) => (3, value.into()),
            Self::Pointer(value) => (4, value),
            Self::Real(value) => (5, value.to_bits()),
            Self::Text(text) => (6, text.raw().into()),
            Self::Json(text) => (7, text.raw().into()),
        }
    }

    fn decode(kind: u8, value: u64) -> Self {
        match kind {
            1 => Self::Int(value as i64),
            2 => Self::Uint(value),
            3 => Self::Bool(value != 0),
            4 => Self::Pointer(value),
            5 => Self::Real(f64::from_bits(value)),
            6 => Self::Text(StringId(value as u32)),
            7 => Self::Json(StringId(value as u32)),
            _ => Self::Null,
        }
    }

    /// Returns the name of its type, as the column `value_type` has it.
    pub fn type_name(self) -> &'static str {
        TYPE_NAMES[usize::from(self.encode().0)]
    }

    /// Returns the value of the column `int_value`.
    pub fn as_int(self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(value),
            Self::Uint(value) | Self::Pointer(value) => Some(value as i64),
            Self::Bool(value) => Some(value.into()),
            _ => None,
        }
    }
}

/// The types that values of a key have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ArgTypes(u8);

impl ArgTypes {
    const TEXT: u8 = 1 << 6 | 1 << 7;
    const REAL: u8 = 1 << 5;
    const INTEGER: u8 = 0b1_1110;

    /// Returns true if there is an integer, an address or a truth value.
    pub fn has_integer(self) -> bool {
        self.0 & Self::INTEGER != 0
    }

    /// Returns true if there is a floating-point number.
    pub fn has_real(self) -> bool {
        self.0 & Self::REAL != 0
    }

    /// Returns true if there is a text.
    pub fn has_text(self) -> bool {
        self.0 & Self::TEXT != 0
    }
}

/// One argument of a set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Arg {
    /// The path of the key without indexes of arrays.
    pub flat_key: StringId,
    /// The path of the key.
    pub key: StringId,
    /// The value.
    pub value: ArgValue,
}

/// Keys and values that belong to rows of other tables.
///
/// All arguments of a row are a set: rows one behind the other, of which the first one's number is
/// that of the set. Equal sets are there once, but for those of switches and wake-ups, which are
/// computed when they are asked for, and one for each.
///
/// Its columns are not kept as slices: each value is made from a number, a type and the number of
/// its keys, which take a third of the memory.
#[derive(Debug, Default)]
pub struct ArgsTable {
    /// Pairs of keys, by number.
    keys: Vec<(StringId, StringId)>,
    key_numbers: FxHashMap<(StringId, StringId), u32>,
    /// The number of each row's keys.
    row_keys: Vec<u32>,
    kinds: Vec<u8>,
    values: Vec<u64>,
    /// The first rows of the sets.
    starts: Vec<u32>,
    /// The same, a bit for each row, once all sets are there.
    begins: Bitmap,
    /// The types of the values of each pair of keys.
    types: OnceLock<Vec<ArgTypes>>,
    /// Open addressing: places in `starts`, each one more than it is.
    slots: Vec<u32>,
    type_names: [StringId; TYPE_NAMES.len()],
    /// The rows that have a value in `int_value`, and in `real_value`.
    valid: OnceLock<[Bitmap; 2]>,
    /// Of events of the scheduler, behind the others.
    log: Option<Arc<SchedLog>>,
}

/// The places of columns in [`ArgsTable::SPEC`].
mod place {
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
        doc: &[" Keys and values that belong to rows of other tables, through their `arg_set_id`."],
        columns: &[
            ID,
            column(
                "arg_set_id",
                &[" The number of the set."],
                ColumnKind::U32,
                true,
            ),
            column(
                "flat_key",
                &[" The path of the key without indexes of arrays."],
                ColumnKind::Text,
                false,
            ),
            column("key", &[" The path of the key."], ColumnKind::Text, false),
            column(
                "int_value",
                &[" The value, if it is a number, an address or a truth value."],
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

    /// Computes arguments from a log from now on.
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
        let raw = of_raw.filter_map(move |place| Some(raw?.arg(place).1));
        rows.map(|row| self.arg(row)).chain(raw)
    }

    /// Returns the rows of a set, none if it is one that follows from the log.
    fn own_set(&self, id: u32) -> Range<usize> {
        let first = id as usize;
        if self.begins.is_empty() {
            let place = self.starts.binary_search(&id);
            return place.map_or(0..0, |place| first..self.end(place));
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

    /// Returns the types that the values of a key have anywhere in the trace.
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

    /// Returns the number of a set with these arguments, which is added if it is new. Keys must
    /// differ.
    pub(crate) fn intern(&mut self, args: &[Arg]) -> u32 {
        if (self.starts.len() + 1) * 2 > self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut slot = hash(args.iter().copied()) as usize & mask;
        while let Some(place) = (self.slots[slot] as usize).checked_sub(1) {
            let rows = self.starts[place] as usize..self.end(place);
            if rows.len() == args.len()
                && rows.zip(args).all(|(row, arg)| same(&self.arg(row), arg))
            {
                return self.starts[place];
            }
            slot = (slot + 1) & mask;
        }
        let start = self.row_keys.len() as u32;
        self.starts.push(start);
        self.slots[slot] = self.starts.len() as u32;
        for arg in args {
            let keys = (arg.flat_key, arg.key);
            let all = &mut self.keys;
            let number = *self.key_numbers.entry(keys).or_insert_with(|| {
                all.push(keys);
                all.len() as u32 - 1
            });
            let (kind, value) = arg.value.encode();
            self.row_keys.push(number);
            self.kinds.push(kind);
            self.values.push(value);
        }
        start
    }

    fn arg(&self, row: usize) -> Arg {
        let (flat_key, key) = self.keys[self.row_keys[row] as usize];
        Arg {
            flat_key,
            key,
            value: ArgValue::decode(self.kinds[row], self.values[row]),
        }
    }

    /// Returns the row behind the last one of a set.
    fn end(&self, place: usize) -> usize {
        let next = self.starts.get(place + 1).map(|start| *start as usize);
        next.unwrap_or(self.row_keys.len())
    }

    fn grow(&mut self) {
        let length = (self.slots.len() * 2).max(64);
        let mut slots = vec![0; length];
        for place in 0..self.starts.len() {
            let rows = self.starts[place] as usize..self.end(place);
            let mut slot = hash(rows.map(|row| self.arg(row))) as usize & (length - 1);
            while slots[slot] != 0 {
                slot = (slot + 1) & (length - 1);
            }
            slots[slot] = place as u32 + 1;
        }
        self.slots = slots;
    }

    /// Returns the set and the argument of a row, also of one that follows from the log.
    fn row(&self, row: usize) -> Option<(u32, Arg)> {
        match (row as u32).checked_sub(self.row_keys.len() as u32) {
            None => {
                let place = self.starts.partition_point(|start| *start as usize <= row);
                Some((self.starts[place.checked_sub(1)?], self.arg(row)))
            }
            Some(place) if row < self.rows() => Some(self.raw()?.arg(place)),
            Some(_) => None,
        }
    }

    /// Returns the number that a column has for an argument.
    fn number(&self, place: usize, (set, arg): (u32, Arg)) -> i64 {
        let kind = || usize::from(arg.value.encode().0);
        match (place, arg.value) {
            (place::SET, _) => set.into(),
            (place::FLAT_KEY, _) => arg.flat_key.raw().into(),
            (place::KEY, _) => arg.key.raw().into(),
            (place::INT, value) => value.as_int().unwrap_or(0),
            (place::TEXT, ArgValue::Text(text) | ArgValue::Json(text)) => text.raw().into(),
            (place::REAL, ArgValue::Real(value)) => value.to_bits() as i64,
            (place::KIND, _) => self.type_names[kind()].raw().into(),
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

    /// Appends the numbers that a column has for arguments of events of the scheduler, which are
    /// counted from 0.
    fn read_raw(&self, place: usize, part: RawPart<'_>, rows: Range<u32>, out: &mut Vec<i64>) {
        let args = part.args();
        let (from, to) = (
            rows.start.max(part.start),
            rows.end.min(part.start + part.rows()),
        );
        if from >= to {
            return;
        }
        let (from, to) = (from - part.start, to - part.start);
        let events = from / args..to.div_ceil(args);
        let begin = out.len();
        match place {
            place::SET => {
                out.resize(begin + events.len() * args as usize, 0);
                let places = out[begin..].chunks_exact_mut(args as usize);
                for (places, event) in places.zip(events) {
                    places.fill((part.set + event * args).into());
                }
            }
            place::INT | place::TEXT => {
                let events = events.start as usize..events.end as usize;
                let args = args as usize;
                out.resize(begin + events.len() * args, 0);
                for number in 0..args {
                    if part.is_text(number) == (place == place::TEXT) {
                        let values = part.values(number, events.clone());
                        let places = out[begin + number..].iter_mut().step_by(args);
                        places.zip(values).for_each(|(place, value)| *place = value);
                    }
                }
            }
            _ => {
                // The same for each event.
                let numbers = (0..args as usize).map(|number| part.arg(0, number));
                let numbers = numbers.map(|arg| self.number(place, (part.set, arg)));
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
        // The first and the last event may have arguments that are not wanted.
        out.drain(begin..begin + (from % args) as usize);
        out.truncate(begin + (to - from) as usize);
    }

    /// Gives back memory that is kept for more rows.
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
        self.slots = Vec::new();
        self.key_numbers = FxHashMap::default();
    }
}

/// Events of which values that do not differ are copied together.
const EVENTS_TOGETHER: usize = 64;

/// Compares arguments, floating-point numbers by their bits.
fn same(one: &Arg, other: &Arg) -> bool {
    (one.key, one.value.encode()) == (other.key, other.value.encode())
}

fn hash(args: impl Iterator<Item = Arg>) -> u64 {
    let mut hasher = FxHasher::default();
    for arg in args {
        (arg.key, arg.value.encode()).hash(&mut hasher);
    }
    let hash = hasher.finish();
    hash ^ hash >> 32
}

impl Table for ArgsTable {
    fn spec(&self) -> &'static TableSpec {
        const { &Self::SPEC }
    }

    fn rows(&self) -> usize {
        self.len() as usize
    }

    fn column(&self, place: usize) -> Option<ColumnView<'_>> {
        if place == 0 {
            return Some(ColumnView {
                values: Values::Id(self.rows()),
                validity: None,
            });
        }
        let spec = Self::SPEC.columns.get(place)?;
        let validity = match place {
            place::INT => Some(&self.valid()[0]),
            place::REAL => Some(&self.valid()[1]),
            _ => None,
        };
        if validity.is_some_and(|valid| valid.words().iter().all(|word| *word == 0)) {
            return Some(ColumnView {
                values: Values::Null(self.rows()),
                validity: None,
            });
        }
        Some(ColumnView {
            values: Values::Numbers(Numbers::new(self, place, spec.kind)),
            validity,
        })
    }

    fn most_memory(&self) -> usize {
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
            + 4 * self.slots.capacity()
            + 8 * self.keys.capacity();
        let valid = self.valid.get().into_iter().flatten();
        own + valid.map(Bitmap::memory).sum::<usize>()
    }
}

impl Source for ArgsTable {
    fn len(&self) -> usize {
        self.rows()
    }

    fn get(&self, place: usize, row: usize) -> i64 {
        self.row(row).map_or(0, |found| self.number(place, found))
    }

    fn read(&self, place: usize, rows: Range<usize>, out: &mut Vec<i64>) {
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
            out.push(self.number(place, (set, self.arg(row))));
        }
        if let Some(raw) = self.raw() {
            let place_of = |row: usize| row.saturating_sub(self.row_keys.len()) as u32;
            let rows = place_of(rows.start)..place_of(rows.end);
            for part in raw.parts() {
                self.read_raw(place, part, rows.clone(), out);
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
