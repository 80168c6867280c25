//! Joins by the id of a row, which is its index. Rows are looked up by index instead of by a hash
//! table.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, RecordBatch, UInt32Array};
use datafusion::arrow::compute::{filter, filter_record_batch, is_not_null};
use datafusion::arrow::datatypes::{DataType, SchemaRef, UInt32Type};
use datafusion::common::cast::as_int64_array;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinSide, JoinType, NullEquality, Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::equivalence::{ProjectionMapping, join_equivalence_properties};
use datafusion::physical_expr::{Partitioning, PhysicalExprRef, expressions::Column};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::build_join_schema;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::StreamExt;

use super::scan::{ScanExec, record_batch};
use crate::node::{column_names, operator};

/// Replaces hash joins by the id of a table's rows by [`LookupExec`].
#[derive(Debug)]
pub(crate) struct LookupById;

impl PhysicalOptimizerRule for LookupById {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|plan| {
            let join = plan.downcast_ref::<HashJoinExec>();
            Ok(match join.map(lookup).transpose()?.flatten() {
                Some(lookup) => Transformed::yes(lookup),
                None => Transformed::no(plan),
            })
        })?;
        Ok(changed.data)
    }

    fn name(&self) -> &'static str {
        "lookup_by_id"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns a lookup that is equivalent to a join, if there is one.
fn lookup(join: &HashJoinExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let [(left_key, right_key)] = join.on() else {
        return Ok(None);
    };
    if join.filter().is_some() || join.null_equality() == NullEquality::NullEqualsNull {
        return Ok(None);
    }
    // A lookup returns all rows of the other side or those with a match. It cannot return rows of
    // the table without a match.
    let sides: &[JoinSide] = match join.join_type() {
        JoinType::Inner => &[JoinSide::Right, JoinSide::Left],
        JoinType::Left => &[JoinSide::Right],
        JoinType::Right => &[JoinSide::Left],
        _ => return Ok(None),
    };
    for side in sides {
        let (plan, id, input, key) = match side {
            JoinSide::Left => (join.left(), left_key, join.right(), right_key),
            _ => (join.right(), right_key, join.left(), left_key),
        };
        let Some(table) = Table::of(plan) else {
            continue;
        };
        let is_id = id
            .downcast_ref::<Column>()
            .is_some_and(|id| table.scan.is_id(table.columns[id.index()]));
        if !is_id || key.data_type(&input.schema())? != DataType::Int64 {
            continue;
        }
        let (of_table, of_input) = (table.columns.len(), input.schema().fields().len());
        let parts = Parts {
            is_outer: *join.join_type() != JoinType::Inner,
            keys: (key.clone(), id.clone()),
            picked: (0..of_table).collect(),
            table,
        };
        let lookup = LookupExec::new(parts, input.clone())?;
        // The columns of the join are those of its left side, then those of its right side.
        let position = |column: usize| match side {
            JoinSide::Left if column < of_table => of_input + column,
            JoinSide::Left => column - of_table,
            _ => column,
        };
        let fields = join.schema();
        let projected = match &join.projection {
            Some(projection) => projection.to_vec(),
            None => (0..of_table + of_input).collect(),
        };
        let columns = projected.into_iter().map(position).zip(fields.fields());
        let columns = columns.map(|(position, field)| (position, field.name().as_str()));
        return lookup.columns(columns).map(Some);
    }
    Ok(None)
}

/// A plan that only reads columns of a table.
#[derive(Debug, Clone)]
struct Table {
    plan: Arc<dyn ExecutionPlan>,
    scan: Arc<ScanExec>,
    /// The column of the scan for each column of the plan.
    columns: Vec<usize>,
}

impl Table {
    fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        if let Some(scan) = plan.downcast_ref::<ScanExec>() {
            return Some(Self {
                plan: plan.clone(),
                scan: Arc::new(scan.clone()),
                columns: (0..plan.schema().fields().len()).collect(),
            });
        }
        let projection = plan.downcast_ref::<ProjectionExec>()?;
        let below = Self::of(projection.input())?;
        let expressions = projection.expr().iter();
        let columns = expressions
            .map(|e| Some(below.columns[e.expr.downcast_ref::<Column>()?.index()]))
            .collect::<Option<_>>()?;
        Some(Self {
            plan: plan.clone(),
            columns,
            ..below
        })
    }
}

/// The definition of a lookup, without its input.
#[derive(Debug, Clone)]
struct Parts {
    table: Table,
    /// True if rows of the input without a row of the table are returned, too.
    is_outer: bool,
    /// The key of the input, and the id column of the table.
    keys: (PhysicalExprRef, PhysicalExprRef),
    /// The columns of the table in the result, after those of the input.
    picked: Vec<usize>,
}

/// Returns each row of the input with the row of the table whose id is its key.
#[derive(Debug)]
struct LookupExec {
    parts: Arc<Parts>,
    input: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl LookupExec {
    fn new(parts: Parts, input: Arc<dyn ExecutionPlan>) -> Result<Self> {
        let table = &parts.table.plan;
        let join_type = if parts.is_outer {
            JoinType::Left
        } else {
            JoinType::Inner
        };
        let (schema, _) = build_join_schema(&input.schema(), &table.schema(), &join_type);
        let schema = Arc::new(schema);
        let rows = join_equivalence_properties(
            input.equivalence_properties().clone(),
            table.equivalence_properties().clone(),
            &join_type,
            schema.clone(),
            &[true, false],
            None,
            std::slice::from_ref(&parts.keys),
        )?;
        let of_input = input.schema().fields().len();
        let picked = parts.picked.iter().map(|column| of_input + column);
        let columns: Vec<usize> = (0..of_input).chain(picked).collect();
        let mapping = ProjectionMapping::from_indices(&columns, &schema)?;
        let schema = Arc::new(schema.project(&columns)?);
        let properties = PlanProperties::new(
            rows.project(&mapping, schema.clone()),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Ok(Self {
            parts: Arc::new(parts),
            input,
            schema,
            properties: Arc::new(properties),
        })
    }

    /// Returns a plan for some columns of this one, which looks up only these.
    fn columns<'a>(
        &self,
        columns: impl Iterator<Item = (usize, &'a str)>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns: Vec<_> = columns.collect();
        let of_input = self.input.schema().fields().len();
        let is_used = |position: usize| columns.iter().any(|(column, _)| *column == position);
        let kept: Vec<usize> = (0..self.parts.picked.len())
            .filter(|pick| is_used(of_input + pick))
            .collect();
        let parts = Parts {
            picked: kept.iter().map(|pick| self.parts.picked[*pick]).collect(),
            ..Parts::clone(&self.parts)
        };
        let lookup = Self::new(parts, self.input.clone())?;
        let expressions = columns.into_iter().map(|(column, name)| {
            let position = match column.checked_sub(of_input) {
                Some(pick) => of_input + kept.partition_point(|kept| *kept < pick),
                None => column,
            };
            let column = Column::new(lookup.schema.field(position).name(), position);
            (Arc::new(column) as PhysicalExprRef, name.to_owned())
        });
        let expressions: Vec<_> = expressions.collect();
        Ok(Arc::new(ProjectionExec::try_new(
            expressions,
            Arc::new(lookup),
        )?))
    }
}

impl Parts {
    fn join(&self, batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
        let keys = self.keys.0.evaluate(&batch)?.into_array(batch.num_rows())?;
        let all = self.table.scan.rows();
        let rows = as_int64_array(&keys)?.iter().map(|key| {
            let row = usize::try_from(key?).ok()?;
            all.contains(&row).then_some(row as u32)
        });
        let mut rows: UInt32Array = rows.collect();
        let mut batch = batch;
        if !self.is_outer && rows.null_count() > 0 {
            let found = is_not_null(&rows)?;
            batch = filter_record_batch(&batch, &found)?;
            rows = filter(&rows, &found)?.as_primitive::<UInt32Type>().clone();
        }
        let mut columns = batch.columns().to_vec();
        for column in &self.picked {
            columns.push(self.table.scan.pick(self.table.columns[*column], &rows)?);
        }
        record_batch(schema, columns, batch.num_rows())
    }
}

impl DisplayAs for LookupExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = &self.parts;
        write!(
            f,
            "LookupExec: {}, outer={}, on={}, columns=[{}]",
            parts.table.scan.source_name(),
            parts.is_outer,
            parts.keys.0,
            column_names(&self.schema)
        )
    }
}

impl ExecutionPlan for LookupExec {
    operator!("LookupExec");

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    // With true, DataFusion may move sorts below this operator, which is correct since the columns
    // of the input come first and have the same indexes.
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.swap_remove(0);
        Ok(Arc::new(Self::new(Parts::clone(&self.parts), input)?))
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let of_input = self.input.schema().fields().len();
        let mut columns = Vec::new();
        for expression in projection.expr() {
            let Some(column) = expression.expr.downcast_ref::<Column>() else {
                return Ok(None);
            };
            columns.push((column.index(), expression.alias.as_str()));
        }
        let is_used = |pick| columns.iter().any(|(column, _)| *column == of_input + pick);
        if (0..self.parts.picked.len()).all(is_used) {
            return Ok(None);
        }
        self.columns(columns.into_iter()).map(Some)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let (parts, schema) = (self.parts.clone(), self.schema.clone());
        let batches = self.input.execute(partition, context)?;
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema.clone(),
            batches.map(move |batch| parts.join(batch?, &schema)),
        )))
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema);
        statistics.num_rows = if self.parts.is_outer {
            inputs[0].num_rows
        } else {
            inputs[0].num_rows.to_inexact()
        };
        statistics.total_byte_size = match statistics.num_rows.get_value() {
            Some(rows) => Precision::Inexact(rows * 8 * self.schema.fields().len()),
            None => Precision::Absent,
        };
        Ok(Arc::new(statistics))
    }
}
