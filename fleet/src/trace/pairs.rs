//! Computed relations between rows: ancestors, descendants, flows, CPU time of slices. Each is a
//! table of two integers, computed only for the origins in the query's condition.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{Expr, Operator, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use ferretto_tables::{TableId, TableSet, Trace};

use crate::node::relation;

use super::scan::{RowSource, ScanExec, record_batch};
use ferretto_query::links::{Index, RELATIONS, Relation};

/// A relation as a table.
#[derive(Debug)]
pub(super) struct PairTable {
    relation: Relation,
    name: &'static str,
    index: Arc<Index>,
    schema: SchemaRef,
}

/// Returns all relations of a trace.
pub(super) fn tables(trace: &Arc<Trace>) -> Vec<PairTable> {
    let index = Arc::new(Index::new(trace));
    RELATIONS
        .iter()
        .map(|(relation, name, columns)| PairTable {
            relation: *relation,
            name,
            index: index.clone(),
            schema: Arc::new(Schema::new(
                columns
                    .map(|c| Field::new(c, DataType::Int64, false))
                    .to_vec(),
            )),
        })
        .collect()
}

/// Returns the tables from which the relation of this name is computed.
pub(super) fn needs(name: &str) -> Option<TableSet> {
    let (relation, ..) = RELATIONS.iter().find(|(_, known, _)| *known == name)?;
    Some(match relation {
        Relation::SliceAncestors
        | Relation::SliceDescendants
        | Relation::SliceAndAncestors
        | Relation::SliceAndDescendants
        | Relation::SliceStack => TableSet::of(&[TableId::slice]),
        Relation::CallsiteAncestors => TableSet::of(&[TableId::stack_profile_callsite]),
        Relation::FlowDirect | Relation::FlowFollowing | Relation::FlowPreceding => {
            TableSet::of(&[TableId::slice, TableId::flow])
        }
        Relation::SliceSched => TableSet::of(&[
            TableId::slice,
            TableId::track,
            TableId::thread,
            TableId::sched_slice,
        ]),
    })
}

impl PairTable {
    pub(super) fn name(&self) -> &'static str {
        self.name
    }
}

/// The pairs of some or all origins.
#[derive(Debug)]
struct Pairs {
    relation: Relation,
    index: Arc<Index>,
    origins: Option<Vec<u32>>,
    projection: Vec<usize>,
    schema: SchemaRef,
}

impl RowSource for Pairs {
    fn batch(&self, rows: Range<usize>) -> Result<RecordBatch> {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for row in rows {
            let origin = self.origins.as_ref().map_or(row as u32, |list| list[row]);
            self.index.others(self.relation, origin, &mut second);
            first.resize(second.len(), i64::from(origin));
        }
        let count = second.len();
        let columns: [ArrayRef; 2] = [
            Arc::new(Int64Array::from(first)),
            Arc::new(Int64Array::from(second)),
        ];
        let columns = self
            .projection
            .iter()
            .map(|index| columns[*index].clone())
            .collect();
        record_batch(&self.schema, columns, count)
    }

    fn name(&self) -> String {
        format!("{:?}", self.relation)
    }
}

/// Returns the values of a column that pass a filter, if it is `=` or `IN` with literals.
fn allowed_values(filter: &Expr, column: &str) -> Option<Vec<i64>> {
    let is = |e: &Expr| matches!(e, Expr::Column(c) if c.name == column);
    let value = |e: &Expr| match e {
        Expr::Literal(ScalarValue::Int64(v), _) => Some(*v),
        Expr::Literal(ScalarValue::Null, _) => Some(None),
        _ => None,
    };
    match filter {
        Expr::BinaryExpr(b) if b.op == Operator::Eq => {
            let literal = if is(&b.left) {
                value(&b.right)
            } else if is(&b.right) {
                value(&b.left)
            } else {
                None
            };
            Some(literal?.into_iter().collect())
        }
        Expr::InList(list) if !list.negated && is(&list.expr) => {
            let values = list.list.iter().map(value).collect::<Option<Vec<_>>>()?;
            Some(values.into_iter().flatten().collect())
        }
        _ => None,
    }
}

#[async_trait]
impl TableProvider for PairTable {
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
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let known = self.index.origins(self.relation);
        let column = self.schema.field(0).name();
        let mut origins = None;
        for values in filters
            .iter()
            .filter_map(|filter| allowed_values(filter, column))
        {
            let mut list = Vec::new();
            for value in values {
                match u32::try_from(value) {
                    Ok(id) if (id as usize) < known => list.push(id),
                    _ => return exec_err!("There is no row with the id {value}."),
                }
            }
            list.sort_unstable();
            list.dedup();
            origins = Some(list);
        }
        let rows = 0..origins.as_ref().map_or(known, Vec::len);
        let projection = projection.cloned().unwrap_or_else(|| vec![0, 1]);
        let schema = Arc::new(self.schema.project(&projection)?);
        let index = self.index.clone();
        let relation = self.relation;
        let source = Pairs {
            relation,
            index,
            origins,
            projection,
            schema: schema.clone(),
        };
        let parts = state.config().target_partitions();
        Ok(Arc::new(
            ScanExec::new(Arc::new(source), schema, rows, parts, &[]).inexact(),
        ))
    }
}
