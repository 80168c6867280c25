//! The rows of a flamegraph's table: frames with their callers and values.

use std::collections::HashMap;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, UInt32Array};
use datafusion::arrow::compute::{cast, take};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};

use crate::error::SqlError;
use crate::functions::is_text;

/// The names of the first columns.
pub(super) const FIXED: [&str; 4] = ["id", "parent_id", "name", "value"];

/// The names of the columns of a flamegraph, which further columns of its rows must not have.
const RESERVED: [&str; 9] = [
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
pub(crate) struct Source {
    /// The names of the columns.
    pub(super) names: Vec<String>,
    /// The columns: integers, reals or texts.
    pub(super) columns: Vec<ArrayRef>,
    /// The row of each row's caller.
    pub(super) callers: Vec<Option<usize>>,
}

impl Source {
    /// Returns the rows of a query's result.
    pub(crate) fn new(rows: &RecordBatch) -> Result<Self, SqlError> {
        let schema = rows.schema();
        let names: Vec<String> = schema
            .fields()
            .iter()
            .map(|f| f.name().to_ascii_lowercase())
            .collect();
        if names.len() < FIXED.len() || names[..FIXED.len()] != FIXED {
            return Err(SqlError::new(format!(
                "The first columns of a flamegraph's rows must be {}.",
                FIXED.join(", ")
            )));
        }
        let reserved = names[FIXED.len()..]
            .iter()
            .find(|name| RESERVED.contains(&name.as_str()));
        if let Some(name) = reserved {
            return Err(SqlError::new(format!(
                "The column '{name}' of a flamegraph's rows has the name of a result column."
            )));
        }
        let columns = rows
            .columns()
            .iter()
            .map(plain)
            .collect::<Result<Vec<_>, _>>()?;
        let wrong = [
            (0, false, "integers"),
            (1, false, "integers"),
            (2, true, "texts"),
            (3, false, "numbers"),
        ]
        .into_iter()
        .find(|(index, text, _)| {
            let column = &rows.columns()[*index];
            let known = column.logical_null_count() < column.len();
            known && is_text(columns[*index].data_type()) != *text
        });
        if let Some((index, _, kind)) = wrong {
            return Err(SqlError::new(format!(
                "The column '{}' of a flamegraph's rows must have {kind}.",
                FIXED[index]
            )));
        }
        let (order, callers) = in_order(&columns[0], &columns[1])?;
        let columns = columns
            .iter()
            .map(|column| take(column, &order, None).map_err(SqlError::arrow))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            names,
            columns,
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

    /// Returns true if a column has numbers.
    pub(super) fn is_number(&self, column: usize) -> bool {
        !is_text(self.columns[column].data_type())
    }

    /// Returns the sum of the values of all rows.
    pub(super) fn total(&self) -> f64 {
        let values = &self.columns[3];
        match values.as_primitive_opt::<Int64Type>() {
            Some(values) => values.iter().flatten().map(|v| v as f64).sum(),
            None => values
                .as_primitive::<Float64Type>()
                .iter()
                .flatten()
                .sum::<f64>(),
        }
    }
}

/// Converts a column to integers, reals or texts.
fn plain(column: &ArrayRef) -> Result<ArrayRef, SqlError> {
    let kind = match column.data_type() {
        t if is_text(t) => DataType::Utf8,
        t if t.is_floating() || t.is_decimal() => DataType::Float64,
        t if t.is_integer() || matches!(t, DataType::Boolean | DataType::Null) => DataType::Int64,
        t => {
            return Err(SqlError::new(format!(
                "A flamegraph cannot have a column of type {t}."
            )));
        }
    };
    // A column without values can be of any kind.
    cast(column, &kind).map_err(SqlError::arrow)
}

/// Returns an order of the rows with callers first, and the callers in that order.
fn in_order(
    ids: &ArrayRef,
    callers: &ArrayRef,
) -> Result<(UInt32Array, Vec<Option<usize>>), SqlError> {
    let integers = |column: &ArrayRef| -> Int64Array {
        match column.as_primitive_opt::<Int64Type>() {
            Some(values) => values.clone(),
            None => Int64Array::new_null(column.len()),
        }
    };
    let (ids, callers) = (integers(ids), integers(callers));
    let mut rows = HashMap::new();
    for (row, id) in ids.iter().enumerate() {
        let Some(id) = id else {
            return Err(SqlError::new("An id of a flamegraph's rows is NULL."));
        };
        if rows.insert(id, row).is_some() {
            return Err(SqlError::new(format!(
                "Two of a flamegraph's rows have the id {id}."
            )));
        }
    }
    let mut called: Vec<Vec<usize>> = vec![Vec::new(); ids.len()];
    let mut order = Vec::with_capacity(ids.len());
    let mut caller_of = vec![None; ids.len()];
    for (row, caller) in callers.iter().enumerate() {
        let Some(caller) = caller else {
            order.push(row);
            continue;
        };
        let Some(caller) = rows.get(&caller) else {
            return Err(SqlError::new(format!(
                "The parent_id {caller} of a flamegraph's rows is no id of a row."
            )));
        };
        called[*caller].push(row);
        caller_of[row] = Some(*caller);
    }
    let mut next = 0;
    while let Some(row) = order.get(next) {
        let frames = std::mem::take(&mut called[*row]);
        order.extend(frames);
        next += 1;
    }
    if order.len() < ids.len() {
        return Err(SqlError::new(
            "The parents of a flamegraph's rows are circular.",
        ));
    }
    let mut index_of = vec![0; ids.len()];
    for (index, row) in order.iter().enumerate() {
        index_of[*row] = index;
    }
    let callers = order
        .iter()
        .map(|row| caller_of[*row].map(|caller| index_of[caller]))
        .collect();
    let order = order
        .into_iter()
        .map(|row| u32::try_from(row).unwrap_or(u32::MAX));
    Ok((UInt32Array::from_iter_values(order), callers))
}
