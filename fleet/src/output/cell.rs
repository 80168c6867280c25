//! The values of results, as SQLite's five types.

use datafusion::arrow::array::{
    Array, AsArray, BinaryArray, Float64Array, Int64Array, RecordBatch, StringArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::Result;

use crate::functions::is_text;

/// A value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell<'a> {
    /// NULL.
    Null,
    /// An integer.
    Int(i64),
    /// A real.
    Real(f64),
    /// A text.
    Text(&'a str),
    /// Bytes.
    Blob(&'a [u8]),
}

/// A column of one type.
#[derive(Debug)]
pub enum Column {
    /// Only NULL.
    Null,
    /// Integers.
    Int(Int64Array),
    /// Reals.
    Real(Float64Array),
    /// Texts.
    Text(StringArray),
    /// Bytes.
    Blob(BinaryArray),
}

impl Column {
    /// Returns the value of a row.
    pub fn cell(&self, row: usize) -> Cell<'_> {
        match self {
            Self::Int(values) if values.is_valid(row) => Cell::Int(values.value(row)),
            Self::Real(values) if values.is_valid(row) => Cell::Real(values.value(row)),
            Self::Text(values) if values.is_valid(row) => Cell::Text(values.value(row)),
            Self::Blob(values) if values.is_valid(row) => Cell::Blob(values.value(row)),
            _ => Cell::Null,
        }
    }
}

/// Converts the columns of a batch to SQLite's types.
pub fn columns(batch: &RecordBatch) -> Result<Vec<Column>> {
    batch
        .columns()
        .iter()
        .map(|array| {
            Ok(match array.data_type() {
                DataType::Null => Column::Null,
                t if is_text(t) => Column::Text(cast(array, &DataType::Utf8)?.as_string().clone()),
                DataType::UInt64 => {
                    let values = array.as_primitive::<datafusion::arrow::datatypes::UInt64Type>();
                    Column::Int(values.unary::<_, Int64Type>(u64::cast_signed))
                }
                t if t.is_integer() || *t == DataType::Boolean => Column::Int(
                    cast(array, &DataType::Int64)?
                        .as_primitive::<Int64Type>()
                        .clone(),
                ),
                t if t.is_floating() || t.is_decimal() => Column::Real(
                    cast(array, &DataType::Float64)?
                        .as_primitive::<Float64Type>()
                        .clone(),
                ),
                DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
                    Column::Blob(cast(array, &DataType::Binary)?.as_binary::<i32>().clone())
                }
                // Lists and times, which only DataFusion's own functions return, become texts.
                _ => {
                    let options = datafusion::arrow::util::display::FormatOptions::default();
                    let format =
                        datafusion::arrow::util::display::ArrayFormatter::try_new(array, &options)?;
                    Column::Text(
                        (0..array.len())
                            .map(|row| array.is_valid(row).then(|| format.value(row).to_string()))
                            .collect(),
                    )
                }
            })
        })
        .collect()
}
