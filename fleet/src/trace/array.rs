//! Columns of a trace as Arrow arrays, without a copy if the types agree.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::arrow::array::{
    Array, ArrayRef, BooleanBufferBuilder, Float64Array, Int64Array, StringViewArray,
    StringViewBuilder, UInt32Array, new_null_array,
};
use datafusion::arrow::buffer::{Buffer, NullBuffer, ScalarBuffer};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};
use ferretto_tables::{Bitmap, ColumnKind, StringPool, TableId, Trace, Values};
use zerocopy::IntoBytes;

/// The texts of a trace by id, from which columns are picked.
#[derive(Debug)]
pub(super) struct Texts(StringViewArray);

impl Texts {
    pub(super) fn new(pool: &StringPool) -> Self {
        let mut builder =
            StringViewBuilder::with_capacity(pool.len()).with_fixed_block_size(1 << 20);
        for (number, text) in pool.iter().enumerate() {
            if number == 0 {
                builder.append_null()
            } else {
                builder.append_value(text)
            }
        }
        Self(builder.finish())
    }

    /// Returns the number of texts, with that of NULL.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the texts with these ids.
    pub(super) fn pick(&self, ids: &UInt32Array) -> Result<ArrayRef> {
        Ok(take(&self.0, ids, None)?)
    }
}

/// Returns the type of a column in SQL.
pub(super) fn data_type(kind: ColumnKind) -> DataType {
    match kind {
        ColumnKind::F64 => DataType::Float64,
        ColumnKind::Text => DataType::Utf8View,
        _ => DataType::Int64,
    }
}

/// Keeps the trace in memory while arrays point into it.
struct Owner {
    trace: Arc<Trace>,
    table: TableId,
    index: usize,
}

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        let table = self.trace.tables().table(self.table);
        match table.column(self.index).map(|column| column.values) {
            Some(Values::I64(values)) => values.as_bytes(),
            Some(Values::F64(values)) => values.as_bytes(),
            _ => &[],
        }
    }
}

fn shared(trace: &Arc<Trace>, table: TableId, index: usize) -> Buffer {
    Buffer::from(Bytes::from_owner(Owner {
        trace: trace.clone(),
        table,
        index,
    }))
}

fn nulls(validity: Option<&Bitmap>, rows: &Range<usize>) -> Option<NullBuffer> {
    let validity = validity?;
    let mut builder = BooleanBufferBuilder::new(rows.len());
    for row in rows.clone() {
        builder.append(validity.get(row));
    }
    Some(NullBuffer::new(builder.finish()))
}

/// Returns a range of rows of a column.
pub(super) fn array(
    trace: &Arc<Trace>,
    texts: &Texts,
    table: TableId,
    index: usize,
    rows: Range<usize>,
) -> Result<ArrayRef> {
    let Some(column) = trace.tables().table(table).column(index) else {
        return exec_err!("the table has no column {index}");
    };
    let nulls = nulls(column.validity, &rows);
    let integers = |values: Vec<i64>| -> ArrayRef {
        Arc::new(Int64Array::new(ScalarBuffer::from(values), nulls.clone()))
    };
    Ok(match column.values {
        Values::Id(_) => integers(rows.map(|row| row as i64).collect()),
        Values::Null(_) => {
            let kind = trace.tables().table(table).spec().columns[index].kind;
            new_null_array(&data_type(kind), rows.len())
        }
        Values::Bool(values) => integers(values[rows].iter().map(|v| i64::from(*v)).collect()),
        Values::U32(values) => integers(values[rows].iter().map(|v| i64::from(*v)).collect()),
        Values::I32(values) => integers(values[rows].iter().map(|v| i64::from(*v)).collect()),
        Values::I64(_) => {
            let buffer = shared(trace, table, index);
            Arc::new(Int64Array::new(
                ScalarBuffer::new(buffer, rows.start, rows.len()),
                nulls,
            ))
        }
        Values::F64(_) => {
            let buffer = shared(trace, table, index);
            Arc::new(Float64Array::new(
                ScalarBuffer::new(buffer, rows.start, rows.len()),
                nulls,
            ))
        }
        Values::Text(values) => {
            let numbers = UInt32Array::from_iter_values(values[rows].iter().map(|id| id.raw()));
            texts.pick(&numbers)?
        }
        Values::Numbers(numbers) => {
            let mut values = Vec::with_capacity(rows.len());
            numbers.read(rows, &mut values);
            match numbers.kind() {
                ColumnKind::Text => {
                    let texts_of = values.iter().map(|id| *id as u32);
                    texts.pick(&UInt32Array::from_iter_values(texts_of))?
                }
                ColumnKind::F64 => {
                    let values: Vec<f64> = values
                        .iter()
                        .map(|bits| f64::from_bits(*bits as u64))
                        .collect();
                    Arc::new(Float64Array::new(ScalarBuffer::from(values), nulls))
                }
                _ => integers(values),
            }
        }
    })
}

/// Returns the values of a column in the given rows; NULL for rows that are NULL.
pub(super) fn picked(
    trace: &Arc<Trace>,
    texts: &Texts,
    table: TableId,
    index: usize,
    rows: &UInt32Array,
) -> Result<ArrayRef> {
    let Some(column) = trace.tables().table(table).column(index) else {
        return exec_err!("the table has no column {index}");
    };
    let validity = column.validity;
    let is_valid = |row: usize| validity.is_none_or(|validity| validity.get(row));
    let integers = |value: &dyn Fn(usize) -> i64| -> ArrayRef {
        let values = rows.iter().map(|row| {
            let row = row? as usize;
            is_valid(row).then(|| value(row))
        });
        Arc::new(values.collect::<Int64Array>())
    };
    let reals = |value: &dyn Fn(usize) -> f64| -> ArrayRef {
        let values = rows.iter().map(|row| {
            let row = row? as usize;
            is_valid(row).then(|| value(row))
        });
        Arc::new(values.collect::<Float64Array>())
    };
    let texts_of = |number: &dyn Fn(usize) -> u32| -> Result<ArrayRef> {
        let numbers = rows.iter().map(|row| Some(number(row? as usize)));
        texts.pick(&numbers.collect::<UInt32Array>())
    };
    Ok(match column.values {
        Values::Id(_) => integers(&|row| row as i64),
        Values::Null(_) => {
            let kind = trace.tables().table(table).spec().columns[index].kind;
            new_null_array(&data_type(kind), rows.len())
        }
        Values::Bool(values) => integers(&|row| values[row].into()),
        Values::U32(values) => integers(&|row| values[row].into()),
        Values::I32(values) => integers(&|row| values[row].into()),
        Values::I64(values) => integers(&|row| values[row]),
        Values::F64(values) => reals(&|row| values[row]),
        Values::Text(values) => texts_of(&|row| values[row].raw())?,
        Values::Numbers(numbers) => match numbers.kind() {
            ColumnKind::Text => texts_of(&|row| numbers.get(row) as u32)?,
            ColumnKind::F64 => reals(&|row| f64::from_bits(numbers.get(row) as u64)),
            _ => integers(&|row| numbers.get(row)),
        },
    })
}
