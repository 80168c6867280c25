//! The rows of a flamegraph's table: frames with their callers and values.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use ferretto_query::computed::{Cell, Kind};
use ferretto_query::flamegraph::Flamegraph;

use crate::error::SqlError;
use crate::functions::is_text;

/// Returns the rows of a query's result.
pub(crate) fn read(rows: &RecordBatch) -> Result<Flamegraph, SqlError> {
    let schema = rows.schema();
    let arrays = rows.columns().iter().map(plain);
    let arrays = arrays.collect::<Result<Vec<_>, _>>()?;
    let kinds = arrays.iter().map(|array| match array.data_type() {
        DataType::Utf8 => Kind::Texts,
        DataType::Float64 => Kind::Reals,
        _ => Kind::Integers,
    });
    let names = schema.fields().iter().map(|field| field.name().clone());
    let columns = names.zip(kinds).collect();
    let values = (0..rows.num_rows()).flat_map(|row| arrays.iter().map(move |it| cell(it, row)));
    Flamegraph::of(columns, values).map_err(|error| SqlError::new(error.message))
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

/// Returns a value of a converted column.
fn cell(column: &ArrayRef, row: usize) -> Cell {
    if column.is_null(row) {
        return Cell::Null;
    }
    match column.data_type() {
        DataType::Utf8 => Cell::Text(column.as_string::<i32>().value(row).to_owned()),
        DataType::Float64 => Cell::Real(column.as_primitive::<Float64Type>().value(row)),
        _ => Cell::Integer(column.as_primitive::<Int64Type>().value(row)),
    }
}
