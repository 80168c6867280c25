//! The tables of a trace.

use std::cell::Cell;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;
use std::thread;

use ferretto_tables::{ColumnKind, ColumnSpec, ColumnView, StringId, TableId, Trace};
use rusqlite::Result;
use rusqlite::types::{Value, ValueRef};

use super::gather::gather;
use super::index::{Index, Search, scan};
use super::order::{SORTED_BYTES, Sorted, key_of, sorted};
use crate::limits::{Charge, Limits};
use crate::sqlite::{Column, Condition, Op, Plan, Relation, Rows};

/// A table of a trace. Rows are found by binary search in ascending columns, and by an index in
/// others.
#[derive(Debug)]
pub(crate) struct TraceTable {
    trace: Arc<Trace>,
    table: TableId,
    limits: Limits,
    indexes: Vec<Index>,
}

impl TraceTable {
    pub(crate) fn new(trace: &Arc<Trace>, table: TableId, limits: &Limits) -> Arc<Self> {
        let indexes = table
            .spec()
            .columns
            .iter()
            .map(|_| Index::default())
            .collect();
        Arc::new(Self {
            trace: trace.clone(),
            table,
            limits: limits.clone(),
            indexes,
        })
    }

    fn specs(&self) -> &'static [ColumnSpec] {
        self.table.spec().columns
    }

    fn column(&self, column: usize) -> Option<ColumnView<'_>> {
        self.trace.tables().table(self.table).column(column)
    }

    /// Returns true if the values of a column ascend and none is NULL.
    fn is_ascending(&self, column: usize) -> bool {
        let spec = self.specs().get(column);
        spec.is_some_and(|spec| {
            spec.is_sorted
                && !spec.is_nullable
                && !matches!(spec.kind, ColumnKind::Text | ColumnKind::F64)
        })
    }

    /// Returns the rows with a value, in their order.
    fn find(self: &Arc<Self>, column: usize, key: i64) -> Vec<u32> {
        let (Some(view), Some(index)) = (self.column(column), self.indexes.get(column)) else {
            return Vec::new();
        };
        match index.search(view.len()) {
            Search::Index => return index.find(&view, key, &self.limits),
            Search::Scan => {}
            Search::ScanAndMake => {
                let table = self.clone();
                let make = move || {
                    if let Some(view) = table.column(column) {
                        table.indexes[column].make(&view, &table.limits);
                    }
                };
                // Without a thread, a later search makes it.
                let _ = thread::Builder::new()
                    .name("ferretto-index".to_owned())
                    .spawn(make);
            }
        }
        scan(&view, key)
    }

    /// Returns the number that represents a value of a column; `None` if no row can have it.
    fn key(&self, column: usize, value: &Value) -> Option<i64> {
        match (self.specs().get(column)?.kind, value) {
            (ColumnKind::Text, Value::Text(text)) => {
                self.trace.strings().find(text).map(|id| id.raw().into())
            }
            (ColumnKind::Text, _) => None,
            (_, Value::Integer(value)) => Some(*value),
            (_, Value::Real(value)) => exact(*value),
            _ => None,
        }
    }
}

/// Returns the integer that is equal to a number.
fn exact(value: f64) -> Option<i64> {
    let integer = value as i64;
    let is_equal = integer as f64 == value && integer != i64::MAX;
    is_equal.then_some(integer)
}

/// Returns the first row of an ascending column for which `below` is false.
fn split(view: &ColumnView<'_>, below: impl Fn(i64) -> bool) -> usize {
    let (mut low, mut high) = (0, view.len());
    while low < high {
        let middle = low + (high - low) / 2;
        if key_of(view, middle).is_some_and(&below) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Compares an integer with a number.
fn compare(value: i64, number: f64) -> Ordering {
    // 2^63 and above, or below -2^63.
    if number >= 9_223_372_036_854_775_808.0 {
        return Ordering::Less;
    }
    if number < -9_223_372_036_854_775_808.0 {
        return Ordering::Greater;
    }
    let whole = number.trunc();
    let fraction = if number > whole {
        Ordering::Less
    } else if number < whole {
        Ordering::Greater
    } else {
        Ordering::Equal
    };
    value.cmp(&(whole as i64)).then(fraction)
}

/// Narrows a range of rows to those whose ascending value fulfils a condition.
fn narrow(view: &ColumnView<'_>, op: Op, value: &Value, rows: &mut Range<usize>) {
    let order = |of: i64| match value {
        Value::Integer(bound) => of.cmp(bound),
        Value::Real(bound) => compare(of, *bound),
        // Texts and blobs are greater than all numbers.
        _ => Ordering::Less,
    };
    if *value == Value::Null {
        rows.end = rows.start;
        return;
    }
    let from = || split(view, |of| order(of) == Ordering::Less);
    let past = || split(view, |of| order(of) != Ordering::Greater);
    let range = match op {
        Op::Eq => from()..past(),
        Op::Lt => 0..from(),
        Op::Le => 0..past(),
        Op::Gt => past()..usize::MAX,
        Op::Ge => from()..usize::MAX,
    };
    rows.start = rows.start.max(range.start).min(rows.end);
    rows.end = rows.end.min(range.end).max(rows.start);
}

impl Relation for TraceTable {
    fn columns(&self) -> Vec<Column> {
        self.specs()
            .iter()
            .map(|spec| Column::new(spec.name))
            .collect()
    }

    fn plan(&self, conditions: &[Condition], order: &[(usize, bool)]) -> Option<Plan> {
        let total = self.trace.tables().table(self.table).rows().max(1) as f64;
        let mut plan = Plan {
            rows: total,
            ..Plan::default()
        };
        let mut steps = 1.0;
        let mut is_searched = false;
        for (index, condition) in conditions.iter().enumerate().filter(|(_, c)| c.is_usable) {
            let is_equal = condition.op == Op::Eq;
            if self.is_ascending(condition.column) {
                plan.is_unique |= is_equal && condition.column == 0;
                plan.rows /= if is_equal { total } else { 4.0 };
                steps += total.log2();
            } else if is_equal
                && !is_searched
                && self.specs().get(condition.column)?.kind != ColumnKind::F64
            {
                is_searched = true;
                plan.rows /= total.sqrt();
                steps += total.log2();
            } else {
                continue;
            }
            plan.used.push(index);
        }
        plan.rows = plan.rows.max(1.0);
        plan.cost = steps + plan.rows;
        // Rows are read in their order, and so in the order of ascending columns.
        plan.is_ordered = order
            .iter()
            .all(|(column, descends)| !descends && self.is_ascending(*column));
        Some(plan)
    }

    fn can_sort(&self, order: &[(usize, bool)]) -> bool {
        let kind = |column: usize| self.specs().get(column).map(|spec| spec.kind);
        let mut kinds = order.iter().map(|(column, _)| kind(*column));
        kinds.all(|kind| kind.is_some_and(|kind| kind != ColumnKind::F64))
    }

    fn open(self: Arc<Self>) -> Box<dyn Rows> {
        Box::new(TableRows {
            charge: self.limits.charge(),
            sorted_by: None,
            table: self,
            rows: Selected::Range(0..0),
            at: 0,
            columns_read: Cell::new(0),
            window: Vec::new(),
        })
    }
}

/// The rows to read, in their order.
#[derive(Debug)]
enum Selected {
    Range(Range<usize>),
    List(Vec<u32>),
    Sorted(Sorted),
}

impl Selected {
    fn len(&self) -> usize {
        match self {
            Self::Range(rows) => rows.len(),
            Self::List(rows) => rows.len(),
            Self::Sorted(sorted) => sorted.rows.len(),
        }
    }

    /// Returns the bytes of memory.
    fn memory(&self) -> u64 {
        let of = |rows: &Vec<u32>| size_of_val(rows.as_slice()) as u64;
        match self {
            Self::Range(_) => 0,
            Self::List(rows) => of(rows),
            Self::Sorted(sorted) => of(&sorted.rows) + of(&sorted.alike),
        }
    }
}

/// The rows whose values are read at once.
const WINDOW: usize = 256;

#[derive(Debug)]
struct TableRows {
    table: Arc<TraceTable>,
    rows: Selected,
    at: usize,
    /// The most important column of the order of sorted rows.
    sorted_by: Option<usize>,
    /// The memory of a list of rows.
    charge: Charge,
    /// A bit for each of the first columns of which a value was read.
    columns_read: Cell<u64>,
    /// The values of a window of listed rows, for each column of which the window before was read.
    /// The processor waits for the memory of many rows at a time so, and not for each of them.
    window: Vec<(usize, Vec<ferretto_tables::Value>)>,
}

impl TableRows {
    /// Replaces the rows.
    fn select(&mut self, rows: Selected) -> Result<()> {
        let (old, new) = (self.rows.memory(), rows.memory());
        self.rows = rows;
        self.charge.shrink(old);
        self.charge.grow(new)
    }

    /// Returns to the first row.
    fn rewind(&mut self) {
        self.at = 0;
        self.columns_read.set(0);
        self.window.clear();
    }

    /// Reads the next window.
    fn read_window(&mut self) {
        let rows = match &self.rows {
            Selected::Range(_) => return,
            Selected::List(rows) | Selected::Sorted(Sorted { rows, .. }) => rows,
        };
        let rows = &rows[self.at..rows.len().min(self.at + WINDOW)];
        let columns = self.columns_read.take();
        self.window.clear();
        for column in (0..u64::BITS as usize).filter(|column| columns >> column & 1 != 0) {
            if let Some(view) = self.table.column(column) {
                let values = gather(&view, rows, |value| value);
                self.window.push((column, values));
            }
        }
    }

    /// Returns the value of a column.
    fn read(&self, column: usize) -> ferretto_tables::Value {
        let is_first = self.sorted_by == Some(column);
        let row = match &self.rows {
            Selected::Sorted(sorted) if is_first => sorted.alike[self.at] as usize,
            _ => self.current(),
        };
        if !is_first && column < u64::BITS as usize {
            self.columns_read.set(self.columns_read.get() | 1 << column);
            let read = self.window.iter().find(|read| read.0 == column);
            if let Some((_, values)) = read {
                return values[self.at % WINDOW];
            }
        }
        let view = self.table.column(column);
        view.map_or(ferretto_tables::Value::Null, |view| view.get(row))
    }

    fn current(&self) -> usize {
        match &self.rows {
            Selected::Range(rows) => rows.start + self.at,
            Selected::List(rows) => rows[self.at] as usize,
            Selected::Sorted(sorted) => sorted.rows[self.at] as usize,
        }
    }
}

impl Rows for TableRows {
    fn start(&mut self, conditions: &[(usize, Op, Value)]) -> Result<()> {
        self.rewind();
        let table = &self.table;
        let mut rows = 0..table.trace.tables().table(table.table).rows();
        let mut found = None;
        for (column, op, value) in conditions {
            if table.is_ascending(*column) {
                if let Some(view) = table.column(*column) {
                    narrow(&view, *op, value, &mut rows);
                }
            } else {
                found = Some((*column, table.key(*column, value)));
            }
        }
        let rows = match found {
            None => Selected::Range(rows),
            Some((_, None)) => Selected::Range(0..0),
            Some((column, Some(key))) => {
                let mut list = table.find(column, key);
                list.retain(|row| rows.contains(&(*row as usize)));
                Selected::List(list)
            }
        };
        self.select(rows)
    }

    fn sort(&mut self, order: &[(usize, bool)]) -> Result<()> {
        self.rewind();
        let mut sorting = self.table.limits.charge();
        sorting.grow(self.rows.len() as u64 * SORTED_BYTES)?;
        self.charge.shrink(self.rows.memory());
        let rows = match std::mem::replace(&mut self.rows, Selected::Range(0..0)) {
            Selected::Range(rows) => rows.map(|row| row as u32).collect(),
            Selected::List(rows) | Selected::Sorted(Sorted { rows, .. }) => rows,
        };
        let columns = order.iter().filter_map(|(column, descends)| {
            let view = self.table.column(*column)?;
            Some((view, *descends))
        });
        let columns: Vec<_> = columns.collect();
        self.sorted_by = order.first().map(|(column, _)| *column);
        let sorted = sorted(rows, &columns, self.table.trace.strings());
        self.select(Selected::Sorted(sorted))
    }

    fn advance(&mut self) -> Result<()> {
        self.at += 1;
        // A statement may keep many readers that have ended.
        if self.is_done() {
            self.window.clear();
            return self.select(Selected::Range(0..0));
        }
        if self.at.is_multiple_of(WINDOW) {
            self.read_window();
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.at >= self.rows.len()
    }

    fn value(&self, column: usize) -> ValueRef<'_> {
        let table = &self.table;
        match self.read(column) {
            ferretto_tables::Value::Null => ValueRef::Null,
            ferretto_tables::Value::Int(value) => ValueRef::Integer(value),
            ferretto_tables::Value::Real(value) => ValueRef::Real(value),
            ferretto_tables::Value::Text(text) => text_ref(&table.trace, text),
        }
    }

    fn row(&self) -> i64 {
        self.current() as i64
    }
}

/// Returns a text as a value.
pub(crate) fn text_ref(trace: &Trace, text: StringId) -> ValueRef<'_> {
    let text = trace.strings().get(text);
    text.map_or(ValueRef::Null, |text| ValueRef::Text(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_compared_with_numbers_exactly() {
        assert_eq!(compare(3, 3.5), Ordering::Less);
        assert_eq!(compare(-3, -3.5), Ordering::Greater);
        assert_eq!(compare(i64::MAX, 9.3e18), Ordering::Less);
        assert_eq!(compare(i64::MIN, -9.3e18), Ordering::Greater);
        assert_eq!(
            compare((1 << 53) + 1, 9_007_199_254_740_992.0),
            Ordering::Greater
        );
        assert_eq!(exact(3.0), Some(3));
        assert_eq!(
            (exact(3.5), exact(1e300), exact(f64::NAN)),
            (None, None, None)
        );
    }
}
