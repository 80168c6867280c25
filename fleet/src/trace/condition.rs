//! Conditions on one text column, which are evaluated once for each text.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use datafusion::arrow::array::{Array, AsArray, RecordBatch, UInt32Array};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::PhysicalExprRef;
use ferretto_tables::{ColumnKind, Values};

use super::array::Texts;

/// A condition on a text column of a table.
///
/// The column has the ids of its texts, so rows without a match are found by a look-up of the
/// result for their id, before any text is read.
#[derive(Debug)]
pub(super) struct TextCondition {
    /// The index of the column in the table.
    column: usize,
    /// The condition on a batch of this column alone.
    condition: PhysicalExprRef,
    schema: SchemaRef,
    /// The results by text id, which all partitions of a scan share.
    results: Vec<AtomicU8>,
}

/// The result for a text that was not evaluated yet.
const UNKNOWN: u8 = 0;
const FAILS: u8 = 1;
const HOLDS: u8 = 2;

/// The maximum number of texts for each row of the table. With more, few rows would have the same
/// text.
const TEXTS_PER_ROW: usize = 8;

impl TextCondition {
    /// Returns the condition of a filter if it depends only on one text column of the table, which
    /// has this number of rows.
    pub(super) fn new(
        state: &dyn Session,
        table: &Schema,
        filter: &Expr,
        texts: &Texts,
        rows: usize,
    ) -> Option<Self> {
        let columns = filter.column_refs();
        let mut columns = columns.iter();
        let (Some(column), None) = (columns.next(), columns.next()) else {
            return None;
        };
        let column = table.index_of(&column.name).ok()?;
        let is_text = *table.field(column).data_type() == DataType::Utf8View;
        if !is_text || filter.is_volatile() || texts.len() / TEXTS_PER_ROW > rows {
            return None;
        }
        let schema = Arc::new(table.project(&[column]).ok()?);
        let of_column = DFSchema::try_from(schema.clone()).ok()?;
        // A filter that cannot be planned alone, such as one with a subquery, is left to others.
        let condition = state
            .create_physical_expr(filter.clone(), &of_column)
            .ok()?;
        Some(Self {
            column,
            condition,
            schema,
            results: (0..texts.len()).map(|_| AtomicU8::new(UNKNOWN)).collect(),
        })
    }

    /// Returns the index of the column in the table.
    pub(super) fn column(&self) -> usize {
        self.column
    }

    /// Returns for each row of a range if the condition holds, from the values of the column.
    pub(super) fn holds(
        &self,
        values: &Values<'_>,
        texts: &Texts,
        rows: Range<usize>,
    ) -> Result<BooleanBuffer> {
        match values {
            Values::Text(ids) => self.of_ids(texts, &ids[rows], |id| id.raw()),
            Values::Numbers(numbers) if numbers.kind() == ColumnKind::Text => {
                let mut ids = Vec::with_capacity(rows.len());
                numbers.read(rows, &mut ids);
                self.of_ids(texts, &ids, |id| *id as u32)
            }
            _ => Ok(BooleanBuffer::new_set(rows.len())),
        }
    }

    fn of_ids<T>(
        &self,
        texts: &Texts,
        ids: &[T],
        number: impl Fn(&T) -> u32,
    ) -> Result<BooleanBuffer> {
        let result = |id: &T| self.results[number(id) as usize].load(Ordering::Relaxed);
        let mut has_unknown = false;
        let holds = BooleanBuffer::collect_bool(ids.len(), |row| {
            let result = result(&ids[row]);
            has_unknown |= result == UNKNOWN;
            result == HOLDS
        });
        if !has_unknown {
            return Ok(holds);
        }
        let unknown = ids.iter().filter(|id| result(id) == UNKNOWN).map(&number);
        let mut unknown: Vec<u32> = unknown.collect();
        unknown.sort_unstable();
        unknown.dedup();
        self.note(texts, unknown)?;
        Ok(BooleanBuffer::collect_bool(ids.len(), |row| {
            result(&ids[row]) == HOLDS
        }))
    }

    /// Notes the results for texts by their ids.
    fn note(&self, texts: &Texts, ids: Vec<u32>) -> Result<()> {
        let ids = UInt32Array::from(ids);
        let batch = RecordBatch::try_new(self.schema.clone(), vec![texts.pick(&ids)?])?;
        let results = self.condition.evaluate(&batch);
        let results = results.and_then(|results| results.into_array(ids.len()));
        // A condition that fails is left to the filter of the query, which may remove such rows for
        // another reason.
        let results = results.ok();
        let results = results
            .as_ref()
            .and_then(|results| results.as_boolean_opt());
        for (index, id) in ids.values().iter().enumerate() {
            // A condition that is NULL does not hold.
            let holds =
                results.is_none_or(|results| results.is_valid(index) && results.value(index));
            let result = if holds { HOLDS } else { FAILS };
            self.results[*id as usize].store(result, Ordering::Relaxed);
        }
        Ok(())
    }
}
