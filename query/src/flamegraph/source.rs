//! The rows of a flamegraph's table: frames with their callers and values.

use std::collections::HashMap;

use rusqlite::types::Value;

use crate::error::SqlError;
use crate::relations::StoredRows;
use crate::relations::computed::Kind;

/// The names of the first columns.
const FIXED: [&str; 4] = ["id", "parent_id", "name", "value"];
/// The column with the name of a frame.
pub(super) const NAME: usize = 2;
/// The column with the value of a frame.
pub(super) const VALUE: usize = 3;

/// The names of the columns of a flamegraph, which further columns of its rows must not have.
pub(super) const COMPUTED: [&str; 9] = [
    "_tree_id",
    "_tree_parent_id",
    "depth",
    "name",
    "self_value",
    "cumulative_value",
    "parent_cumulative_value",
    "x_start",
    "x_end",
];

/// The rows, callers before the frames they call.
#[derive(Debug)]
pub(super) struct Source {
    /// The names of the columns.
    pub(super) names: Vec<String>,
    kinds: Vec<Kind>,
    rows: StoredRows,
    /// The stored row of each row.
    order: Vec<usize>,
    /// The row of each row's caller.
    pub(super) callers: Vec<Option<usize>>,
}

impl Source {
    /// Returns the rows of a query's result, with the names and kinds of their columns.
    pub(super) fn new(columns: Vec<(String, Kind)>, rows: StoredRows) -> Result<Self, SqlError> {
        let (names, kinds): (Vec<String>, Vec<Kind>) = columns
            .into_iter()
            .map(|(name, kind)| (name.to_ascii_lowercase(), kind))
            .unzip();
        if names.len() < FIXED.len() || names[..FIXED.len()] != FIXED {
            return Err(SqlError::new(format!(
                "The first columns of a flamegraph's rows must be {}.",
                FIXED.join(", ")
            )));
        }
        let computed = names[FIXED.len()..]
            .iter()
            .find(|name| COMPUTED.contains(&name.as_str()));
        if let Some(name) = computed {
            return Err(SqlError::new(format!(
                "The column '{name}' of a flamegraph's rows has the name of a result column."
            )));
        }
        let has_values = |column: usize| {
            let mut rows = (0..rows.len()).map(|row| &rows.row(row)[column]);
            rows.any(|value| *value != Value::Null)
        };
        let wanted = [
            (kinds[0] == Kind::Integers, "integers"),
            (kinds[1] == Kind::Integers, "integers"),
            (kinds[NAME] == Kind::Texts, "texts"),
            (kinds[VALUE] != Kind::Texts, "numbers"),
        ];
        let mut wanted = wanted.into_iter().enumerate();
        if let Some((column, (_, kind))) =
            wanted.find(|(column, (is_met, _))| !is_met && has_values(*column))
        {
            return Err(SqlError::new(format!(
                "The column '{}' of a flamegraph's rows must have {kind}.",
                FIXED[column]
            )));
        }
        let (order, callers) = in_order(&rows)?;
        Ok(Self {
            names,
            kinds,
            rows,
            order,
            callers,
        })
    }

    /// Returns the number of rows.
    pub(super) fn len(&self) -> usize {
        self.callers.len()
    }

    /// Returns the index of a column.
    pub(super) fn column(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|n| n.eq_ignore_ascii_case(name))
    }

    /// Returns the indexes of the columns after the first four.
    pub(super) fn properties(&self) -> std::ops::Range<usize> {
        FIXED.len()..self.names.len()
    }

    /// Returns the kind of a column.
    pub(super) fn kind(&self, column: usize) -> Kind {
        self.kinds[column]
    }

    /// Returns true if a column has numbers.
    pub(super) fn is_number(&self, column: usize) -> bool {
        self.kinds[column] != Kind::Texts
    }

    /// Returns true if a column has numbers that are not all integers.
    pub(super) fn has_reals(&self, column: usize) -> bool {
        self.kinds[column] == Kind::Reals
    }

    /// Returns a value.
    pub(super) fn value(&self, row: usize, column: usize) -> &Value {
        &self.rows.row(self.order[row])[column]
    }

    /// Returns a value of a column of integers; `None` for NULL.
    pub(super) fn integer(&self, row: usize, column: usize) -> Option<i64> {
        match self.value(row, column) {
            Value::Integer(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns a value of a column of numbers; `None` for NULL.
    pub(super) fn real(&self, row: usize, column: usize) -> Option<f64> {
        match self.value(row, column) {
            Value::Integer(value) => Some(*value as f64),
            Value::Real(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns a value as a text; `None` for NULL.
    pub(super) fn text(&self, row: usize, column: usize) -> Option<String> {
        match self.value(row, column) {
            Value::Integer(value) => Some(value.to_string()),
            Value::Real(value) => Some(format!("{value:?}")),
            Value::Text(text) => Some(text.clone()),
            Value::Null | Value::Blob(_) => None,
        }
    }

    /// Returns the sum of the values of all rows.
    pub(super) fn total(&self) -> Value {
        let rows = 0..self.len();
        if self.has_reals(VALUE) {
            return Value::Real(rows.filter_map(|row| self.real(row, VALUE)).sum());
        }
        let values = rows.filter_map(|row| self.integer(row, VALUE));
        Value::Integer(values.fold(0, i64::saturating_add))
    }
}

/// Returns the kind of a column with these values.
pub(super) fn kind<'a>(
    name: &str,
    values: impl Iterator<Item = &'a Value>,
) -> Result<Kind, SqlError> {
    let mut kind = Kind::Integers;
    for value in values {
        match value {
            Value::Text(_) => kind = Kind::Texts,
            Value::Real(_) if kind == Kind::Integers => kind = Kind::Reals,
            Value::Blob(_) => {
                return Err(SqlError::new(format!(
                    "The column '{name}' of a flamegraph's rows has bytes, not texts or numbers."
                )));
            }
            _ => {}
        }
    }
    Ok(kind)
}

/// Returns an order of the rows with callers first, and the callers in that order.
fn in_order(rows: &StoredRows) -> Result<(Vec<usize>, Vec<Option<usize>>), SqlError> {
    let integer = |row: usize, column: usize| match rows.row(row)[column] {
        Value::Integer(value) => Some(value),
        _ => None,
    };
    let mut rows_of = HashMap::new();
    for row in 0..rows.len() {
        let Some(id) = integer(row, 0) else {
            return Err(SqlError::new("An id of a flamegraph's rows is NULL."));
        };
        if rows_of.insert(id, row).is_some() {
            return Err(SqlError::new(format!(
                "Two of a flamegraph's rows have the id {id}."
            )));
        }
    }
    let mut called: Vec<Vec<usize>> = vec![Vec::new(); rows.len()];
    let mut order = Vec::with_capacity(rows.len());
    let mut caller_of = vec![None; rows.len()];
    for (row, above) in caller_of.iter_mut().enumerate() {
        let Some(caller) = integer(row, 1) else {
            order.push(row);
            continue;
        };
        let Some(caller) = rows_of.get(&caller) else {
            return Err(SqlError::new(format!(
                "The parent_id {caller} of a flamegraph's rows is no id of a row."
            )));
        };
        called[*caller].push(row);
        *above = Some(*caller);
    }
    let mut next = 0;
    while let Some(row) = order.get(next) {
        let frames = std::mem::take(&mut called[*row]);
        order.extend(frames);
        next += 1;
    }
    if order.len() < rows.len() {
        return Err(SqlError::new(
            "The parents of a flamegraph's rows are circular.",
        ));
    }
    let mut index_of = vec![0; rows.len()];
    for (index, row) in order.iter().enumerate() {
        index_of[*row] = index;
    }
    let callers = order
        .iter()
        .map(|row| caller_of[*row].map(|caller| index_of[caller]))
        .collect();
    Ok((order, callers))
}
