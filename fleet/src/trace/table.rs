//! A table of a trace.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Expr, Operator, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use ferretto_tables::{ColumnKind, TableId, Trace, Values};

use super::array::{Texts, array, data_type, picked};
use super::condition::TextCondition;
use super::scan::{RowSource, ScanExec, record_batch};
use crate::node::relation;

/// A table of a trace, read without a copy.
#[derive(Debug)]
pub struct TraceTable {
    trace: Arc<Trace>,
    texts: Arc<Texts>,
    table: TableId,
    schema: SchemaRef,
}

impl TraceTable {
    /// Returns a table of the trace.
    pub(super) fn new(trace: Arc<Trace>, texts: Arc<Texts>, table: TableId) -> Self {
        let columns = table.spec().columns;
        let field = |c: &ferretto_tables::ColumnSpec| {
            // DataFusion has to take all columns as nullable: a subquery without rows is NULL even
            // if its column is not nullable.
            Field::new(c.name, data_type(c.kind), true)
        };
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        Self {
            trace,
            texts,
            table,
            schema,
        }
    }

    /// Narrows a range of rows by a condition on a sorted column.
    fn prune(&self, filter: &Expr, rows: &mut Range<usize>) {
        match filter {
            Expr::BinaryExpr(binary) if binary.op == Operator::And => {
                self.prune(&binary.left, rows);
                self.prune(&binary.right, rows);
            }
            Expr::BinaryExpr(binary) => {
                let (column, literal, op) = match (&*binary.left, &*binary.right) {
                    (Expr::Column(c), Expr::Literal(v, _)) => (c, v, binary.op),
                    (Expr::Literal(v, _), Expr::Column(c)) => match binary.op.swap() {
                        Some(op) => (c, v, op),
                        None => return,
                    },
                    _ => return,
                };
                let ScalarValue::Int64(Some(value)) = literal else {
                    return;
                };
                if let Some(values) = self.ascending(&column.name) {
                    narrow(&values, op, *value, rows);
                }
            }
            Expr::Between(between) if !between.negated => {
                if let (Expr::Column(column), Expr::Literal(low, _), Expr::Literal(high, _)) =
                    (&*between.expr, &*between.low, &*between.high)
                    && let (ScalarValue::Int64(Some(low)), ScalarValue::Int64(Some(high))) =
                        (low, high)
                    && let Some(values) = self.ascending(&column.name)
                {
                    narrow(&values, Operator::GtEq, *low, rows);
                    narrow(&values, Operator::LtEq, *high, rows);
                }
            }
            _ => {}
        }
    }

    /// Returns the values of a column if they are sorted and none is NULL.
    fn ascending(&self, name: &str) -> Option<Values<'_>> {
        let spec = self.table.spec();
        let index = spec.column(name)?;
        if !spec.columns[index].is_sorted {
            return None;
        }
        let column = self.trace.tables().table(self.table).column(index)?;
        column.validity.is_none().then_some(column.values)
    }
}

/// Narrows a range of rows to those for which `value OP bound` may hold.
fn narrow(values: &Values<'_>, op: Operator, bound: i64, rows: &mut Range<usize>) {
    /// Returns the first row for whose value `below` is false.
    fn split<T: Copy + Into<i64>>(values: &[T], below: impl Fn(i64) -> bool) -> usize {
        values.partition_point(|v| below((*v).into()))
    }
    /// Returns the first of `count` rows for which `is_below` is false.
    fn split_rows(count: usize, is_below: impl Fn(usize) -> bool) -> usize {
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            if is_below(middle) {
                low = middle + 1
            } else {
                high = middle
            }
        }
        low
    }
    let first = |below: &dyn Fn(i64) -> bool| match values {
        Values::Id(count) => Some(split_rows(*count, |row| below(row as i64))),
        Values::Numbers(numbers) => {
            let count = numbers.len();
            Some(split_rows(count, |row| below(numbers.get(row))))
        }
        Values::I64(values) => Some(split(values, below)),
        Values::U32(values) => Some(split(values, below)),
        Values::I32(values) => Some(split(values, below)),
        _ => None,
    };
    let (Some(from), Some(past)) = (first(&|v| v < bound), first(&|v| v <= bound)) else {
        return;
    };
    let range = match op {
        Operator::Eq => from..past,
        Operator::Lt => 0..from,
        Operator::LtEq => 0..past,
        Operator::Gt => past..usize::MAX,
        Operator::GtEq => from..usize::MAX,
        _ => return,
    };
    rows.start = rows.start.max(range.start).min(rows.end);
    rows.end = rows.end.min(range.end).max(rows.start);
}

/// The source of some columns of the table.
#[derive(Debug)]
struct Columns {
    trace: Arc<Trace>,
    texts: Arc<Texts>,
    table: TableId,
    indexes: Vec<usize>,
    schema: SchemaRef,
    /// The conditions for which rows may be left out. They are evaluated again for the others.
    conditions: Vec<TextCondition>,
}

/// The share of rows up to which they are picked one by one: one of this number.
const PICKED_OF: usize = 4;

impl Columns {
    /// Returns the rows of a range for which all conditions hold.
    fn matching(&self, rows: &Range<usize>) -> Result<BooleanBuffer> {
        let table = self.trace.tables().table(self.table);
        let mut all = BooleanBuffer::new_set(rows.len());
        for condition in &self.conditions {
            if let Some(column) = table.column(condition.column()) {
                all = &all & &condition.holds(&column.values, &self.texts, rows.clone())?;
            }
        }
        Ok(all)
    }
}

impl RowSource for Columns {
    fn batch(&self, rows: Range<usize>) -> Result<RecordBatch> {
        if !self.conditions.is_empty() {
            let matching = self.matching(&rows)?;
            let count = matching.count_set_bits();
            if count <= rows.len() / PICKED_OF {
                let numbers = matching.set_indices().map(|at| (rows.start + at) as u32);
                let numbers = UInt32Array::from_iter_values(numbers);
                let columns = (0..self.indexes.len()).map(|column| self.pick(column, &numbers));
                return record_batch(&self.schema, columns.collect::<Result<_>>()?, count);
            }
        }
        let columns = self
            .indexes
            .iter()
            .map(|index| array(&self.trace, &self.texts, self.table, *index, rows.clone()))
            .collect::<Result<Vec<_>>>()?;
        record_batch(&self.schema, columns, rows.len())
    }

    fn name(&self) -> String {
        self.table.spec().name.to_owned()
    }

    fn is_id(&self, column: usize) -> bool {
        let table = self.trace.tables().table(self.table);
        let column = table.column(self.indexes[column]);
        column.is_some_and(|column| matches!(column.values, Values::Id(_)))
    }

    fn pick(&self, column: usize, rows: &UInt32Array) -> Result<ArrayRef> {
        let index = self.indexes[column];
        picked(&self.trace, &self.texts, self.table, index, rows)
    }
}

#[async_trait]
impl TableProvider for TraceTable {
    relation!(Base);

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut rows = 0..self.trace.tables().table(self.table).rows();
        for filter in filters {
            self.prune(filter, &mut rows);
        }
        if filters.is_empty() {
            rows.end = rows
                .end
                .min(rows.start.saturating_add(limit.unwrap_or(usize::MAX)));
        }
        let indexes: Vec<usize> = projection
            .cloned()
            .unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let schema = Arc::new(self.schema.project(&indexes)?);
        let columns = self.table.spec().columns;
        let sorted: Vec<usize> = indexes
            .iter()
            .enumerate()
            .filter(|(_, index)| {
                columns[**index].is_sorted && columns[**index].kind != ColumnKind::Text
            })
            .map(|(position, _)| position)
            .collect();
        let conditions = filters.iter().filter_map(|filter| {
            TextCondition::new(state, &self.schema, filter, &self.texts, rows.len())
        });
        let source = Columns {
            trace: self.trace.clone(),
            texts: self.texts.clone(),
            table: self.table,
            indexes,
            schema: schema.clone(),
            conditions: conditions.collect(),
        };
        let leaves_out = !source.conditions.is_empty();
        let parts = state.config().target_partitions();
        let scan = ScanExec::new(Arc::new(source), schema, rows, parts, &sorted);
        Ok(Arc::new(if leaves_out { scan.inexact() } else { scan }))
    }
}
