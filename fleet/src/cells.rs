//! Columns of rows that the SQL of one trace computes.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use ferretto_query::computed::{Cell, Cells, Kind};

/// Returns the types of columns.
pub(crate) fn schema(columns: impl Iterator<Item = (impl Into<String>, Kind)>) -> SchemaRef {
    let fields = columns.map(|(name, kind)| {
        let kind = match kind {
            Kind::Integers => DataType::Int64,
            Kind::Reals => DataType::Float64,
            Kind::Texts => DataType::Utf8,
        };
        Field::new(name, kind, true)
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Returns the columns of rows.
pub(crate) fn arrays(rows: &Cells, schema: &Schema) -> Vec<ArrayRef> {
    let fields = schema.fields().iter().enumerate();
    let arrays = fields.map(|(column, field)| array(rows, column, field.data_type()));
    arrays.collect()
}

fn array(rows: &Cells, column: usize, kind: &DataType) -> ArrayRef {
    let cells = (0..rows.len()).map(|row| &rows.row(row)[column]);
    match kind {
        DataType::Utf8 => {
            let texts = cells.map(|cell| match cell {
                Cell::Text(text) => Some(text.as_str()),
                _ => None,
            });
            Arc::new(texts.collect::<StringArray>())
        }
        DataType::Float64 => {
            let reals = cells.map(|cell| match cell {
                Cell::Real(real) => Some(*real),
                Cell::Integer(integer) => Some(*integer as f64),
                _ => None,
            });
            Arc::new(reals.collect::<Float64Array>())
        }
        _ => {
            let integers = cells.map(|cell| match cell {
                Cell::Integer(integer) => Some(*integer),
                _ => None,
            });
            Arc::new(integers.collect::<Int64Array>())
        }
    }
}

/// Returns the value of an argument.
pub(crate) fn cell(value: &ScalarValue) -> Cell {
    if value.is_null() {
        return Cell::Null;
    }
    if let Some(text) = value.try_as_str().flatten() {
        return Cell::Text(text.to_owned());
    }
    if let Ok(ScalarValue::Float64(Some(real))) = value.cast_to(&DataType::Float64)
        && value.data_type().is_floating()
    {
        return Cell::Real(real);
    }
    match value.cast_to(&DataType::Int64) {
        Ok(ScalarValue::Int64(Some(integer))) => Cell::Integer(integer),
        _ => Cell::Null,
    }
}
