//! The physical scan of a range of rows.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::{Result, Statistics, exec_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalSortExpr, expressions::Column};
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::stream;

use crate::node::{column_names, operator, properties};

/// A source of rows for [`ScanExec`].
pub(super) trait RowSource: fmt::Debug + Send + Sync {
    /// Returns a range of rows, of which those that a filter of the scan removes may be left out.
    fn batch(&self, rows: Range<usize>) -> Result<RecordBatch>;
    /// Returns the name in plans.
    fn name(&self) -> String;

    /// Returns true if a column has the id of each row, which is its index.
    fn is_id(&self, _column: usize) -> bool {
        false
    }

    /// Returns the values of a column in the given rows; NULL for rows that are NULL.
    fn pick(&self, _column: usize, _rows: &UInt32Array) -> Result<ArrayRef> {
        exec_err!("rows of {} have no ids", self.name())
    }
}

/// A scan of rows, split into contiguous parts.
#[derive(Debug, Clone)]
pub(super) struct ScanExec {
    source: Arc<dyn RowSource>,
    schema: SchemaRef,
    rows: Range<usize>,
    parts: usize,
    exact: bool,
    properties: Arc<PlanProperties>,
}

/// The smallest number of rows of a part.
const MIN_PART: usize = 16 * 1024;

impl ScanExec {
    /// Returns a scan whose rows are sorted by each of the columns in `sorted`.
    pub(super) fn new(
        source: Arc<dyn RowSource>,
        schema: SchemaRef,
        rows: Range<usize>,
        parts: usize,
        sorted: &[usize],
    ) -> Self {
        let parts = parts.min(rows.len() / MIN_PART).max(1);
        let options = SortOptions {
            descending: false,
            nulls_first: true,
        };
        let orderings: Vec<Vec<PhysicalSortExpr>> = sorted
            .iter()
            .map(|index| {
                let column = Column::new(schema.field(*index).name(), *index);
                vec![PhysicalSortExpr::new(Arc::new(column), options)]
            })
            .collect();
        let equivalence = EquivalenceProperties::new_with_orderings(schema.clone(), orderings);
        Self {
            source,
            schema,
            rows,
            parts,
            exact: true,
            properties: properties(equivalence, parts, EmissionType::Incremental),
        }
    }

    /// Marks the number of rows as an estimate.
    pub(super) fn inexact(mut self) -> Self {
        self.exact = false;
        self
    }

    /// Returns the range of rows.
    pub(super) fn rows(&self) -> &Range<usize> {
        &self.rows
    }

    /// Returns true if a column has the id of each row, which is its index.
    pub(super) fn is_id(&self, column: usize) -> bool {
        self.source.is_id(column)
    }

    /// Returns the values of a column in the given rows; NULL for rows that are NULL.
    pub(super) fn pick(&self, column: usize, rows: &UInt32Array) -> Result<ArrayRef> {
        self.source.pick(column, rows)
    }

    /// Returns the name of the source.
    pub(super) fn source_name(&self) -> String {
        self.source.name()
    }

    fn part(&self, index: usize) -> Range<usize> {
        let at = |n: usize| self.rows.start + self.rows.len() * n / self.parts;
        at(index)..at(index + 1)
    }
}

impl DisplayAs for ScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "TraceScan: {}, rows={}..{}, columns=[{}]",
            self.source.name(),
            self.rows.start,
            self.rows.end,
            column_names(&self.schema)
        )
    }
}

impl ExecutionPlan for ScanExec {
    operator!("TraceScan");

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows = self.part(partition);
        let size = context.session_config().batch_size().max(1);
        let source = self.source.clone();
        let end = rows.end;
        let batches = rows
            .step_by(size)
            .map(move |start| source.batch(start..(start + size).min(end)))
            .filter(|batch| !matches!(batch, Ok(batch) if batch.num_rows() == 0));
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema.clone(),
            stream::iter(batches),
        )))
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let rows = partition
            .map_or(self.rows.clone(), |index| self.part(index))
            .len();
        let mut statistics = Statistics::new_unknown(&self.schema);
        // Computed relations return any number of rows for each counted origin.
        statistics.num_rows = if self.exact {
            Precision::Exact(rows)
        } else {
            Precision::Inexact(rows)
        };
        statistics.total_byte_size = Precision::Inexact(rows * 8 * self.schema.fields().len());
        Ok(Arc::new(statistics))
    }
}

/// Returns a batch, which may have no columns.
pub(crate) fn record_batch(
    schema: &SchemaRef,
    columns: Vec<ArrayRef>,
    rows: usize,
) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(
        schema.clone(),
        columns,
        &options,
    )?)
}
