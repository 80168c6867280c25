//! Values of the columns of arguments.

use std::ops::Range;

use super::ArgsTable;
use crate::column::{Bitmap, ColumnView, Numbers, Source, Values};
use crate::derived::{RawArgs, RawPart};
use crate::schema::arg::{Arg, ArgValue};
use crate::table::{Table, TableSpec};

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

/// The number of events for which equal values are copied together.
const EVENTS_TOGETHER: usize = 64;

impl ArgsTable {
    /// Returns the set and the argument of a row, which may be computed from the log.
    fn row(&self, row: usize) -> Option<(u32, Arg)> {
        match (row as u32).checked_sub(self.own_rows() as u32) {
            None => Some((self.set_of(row), self.arg(row))),
            Some(index) if row < self.rows() => Some(self.raw()?.arg(index)),
            Some(_) => None,
        }
    }

    /// Returns the set of a row that is not computed.
    fn set_of(&self, row: usize) -> u32 {
        if self.begins.is_empty() {
            let index = self.starts.partition_point(|start| *start as usize <= row);
            return index.checked_sub(1).map_or(0, |index| self.starts[index]);
        }
        // Sets are short.
        let begins = (0..=row).rev().find(|row| self.begins.get(*row));
        begins.unwrap_or(0) as u32
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
            let own = || (0..self.own_rows()).map(|row| self.arg(row).value);
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
            + 8 * self.keys.capacity()
            + self.saved.iter().map(|saved| saved.memory()).sum::<usize>();
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
        let own = rows.start..rows.end.min(self.own_rows());
        let mut set = if own.is_empty() {
            0
        } else {
            self.set_of(own.start)
        };
        for row in own {
            if self.begins.get(row) {
                set = row as u32;
            }
            out.push(self.number(index, (set, self.arg(row))));
        }
        if let Some(raw) = self.raw() {
            let raw_index = |row: usize| row.saturating_sub(self.own_rows()) as u32;
            let rows = raw_index(rows.start)..raw_index(rows.end);
            for part in raw.parts() {
                self.read_raw(index, part, rows.clone(), out);
            }
        }
    }
}
