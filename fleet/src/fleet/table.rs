//! A table of many traces.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{Array, BooleanArray, RecordBatch, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Expr, JoinType, LogicalPlan, LogicalPlanBuilder, TableProviderFilterPushDown,
};
use datafusion::physical_expr::create_physical_expr;
use datafusion::physical_plan::ExecutionPlan;

use super::exec::TracesExec;
use super::files::TraceFile;
use super::function;
use super::scope::Scope;
use crate::node::{relation, table_as};

/// The column with the ids of traces.
pub(super) const TRACE_ID: &str = "trace_id";
/// The column with the paths of files.
pub(super) const PATH: &str = "path";

/// The name of the relation of unreadable traces.
pub(super) const UNREADABLE: &str = "__unreadable";

/// The rows to read of each trace.
#[derive(Debug, Clone)]
pub(crate) enum Subject {
    /// A table or view.
    Named(String),
    /// The rows of a part of a plan that concerns one trace at a time.
    Lifted(Box<LogicalPlan>),
}

/// The rows of all traces, with the id and the path of their traces.
#[derive(Debug, Clone)]
pub(crate) struct TracesTable {
    scope: Arc<Scope>,
    subject: Subject,
    schema: SchemaRef,
}

impl TracesTable {
    /// Returns a relation of all traces. Its own columns with the names of the added ones are
    /// renamed.
    pub(super) fn named(scope: Arc<Scope>, name: &str, own: &Schema) -> Self {
        let mut fields: Vec<Field> = own
            .fields()
            .iter()
            .map(|field| {
                let field = field.as_ref().clone().with_nullable(true);
                if field.name() == TRACE_ID || field.name() == PATH {
                    let name = format!("own_{}", field.name());
                    field.with_name(name)
                } else {
                    field
                }
            })
            .collect();
        fields.push(Field::new(TRACE_ID, DataType::Utf8View, true));
        fields.push(Field::new(PATH, DataType::Utf8View, true));
        Self {
            scope,
            subject: Subject::Named(name.to_owned()),
            schema: Arc::new(Schema::new(fields)),
        }
    }

    /// Returns the relation of unreadable traces, with the reasons.
    pub(super) fn unreadable(scope: Arc<Scope>) -> Self {
        let reason = Field::new("reason", DataType::Utf8View, true);
        Self::named(scope, UNREADABLE, &Schema::new(vec![reason]))
    }

    /// Returns a part of a plan as a table with the columns `c0`, `c1` and so on.
    pub(super) fn lifted(scope: Arc<Scope>, plan: LogicalPlan) -> Self {
        let fields = plan
            .schema()
            .fields()
            .iter()
            .enumerate()
            .map(|(at, f)| Field::new(format!("c{at}"), f.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Self {
            scope,
            subject: Subject::Lifted(Box::new(plan)),
            schema,
        }
    }

    pub(crate) fn decoded(scope: Arc<Scope>, subject: Subject, schema: SchemaRef) -> Self {
        Self {
            scope,
            subject,
            schema,
        }
    }

    pub(crate) fn subject(&self) -> &Subject {
        &self.subject
    }

    pub(crate) fn scope(&self) -> &Arc<Scope> {
        &self.scope
    }

    /// Returns the rows as a plan.
    fn relation(&self) -> Result<LogicalPlanBuilder> {
        match &self.subject {
            Subject::Named(name) => {
                let source = provider_as_source(Arc::new(self.clone()));
                LogicalPlanBuilder::scan(name.as_str(), source, None)
            }
            Subject::Lifted(plan) => {
                let columns = plan.schema().columns();
                let columns = columns.into_iter().zip(self.schema.fields());
                let columns = columns.map(|(column, f)| Expr::Column(column).alias(f.name()));
                LogicalPlanBuilder::from(plan.as_ref().clone()).project(columns)
            }
        }
    }

    /// Returns the files that may have rows which pass the filters.
    fn files(&self, filters: &[Expr]) -> Result<Vec<TraceFile>> {
        let mut conditions: Vec<Expr> = Vec::new();
        if let Subject::Lifted(plan) = &self.subject {
            about_files(plan, &mut conditions)?;
        } else {
            conditions.extend(filters.iter().filter(|f| is_about_files(f)).cloned());
        }
        let Some(condition) = conjunction(conditions) else {
            return Ok(self.scope.files.clone());
        };
        let condition = condition
            .transform_up(|e| {
                Ok(match e {
                    Expr::Column(c) => Transformed::yes(Expr::Column(Column::from_name(c.name))),
                    other => Transformed::no(other),
                })
            })
            .data()?;
        let files = &self.scope.files;
        let schema = Arc::new(Schema::new(vec![
            Field::new(TRACE_ID, DataType::Utf8View, false),
            Field::new(PATH, DataType::Utf8View, false),
        ]));
        let ids: StringViewArray = files.iter().map(|f| Some(f.id.as_str())).collect();
        let paths: StringViewArray = files.iter().map(|f| Some(f.path.as_str())).collect();
        let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(ids), Arc::new(paths)])?;
        let schema = DFSchema::try_from(schema)?;
        let check = create_physical_expr(
            &condition,
            &schema,
            &Default::default(),
            &Default::default(),
        )?;
        let held = check.evaluate(&batch)?.into_array(files.len())?;
        let Some(held) = held.as_any().downcast_ref::<BooleanArray>() else {
            return Ok(files.clone());
        };
        let kept = files.iter().zip(held.iter());
        Ok(kept
            .filter(|(_, h)| *h == Some(true))
            .map(|(f, _)| f.clone())
            .collect())
    }
}

/// Returns true if a condition depends only on the id and the path of the trace.
fn is_about_files(filter: &Expr) -> bool {
    let columns = filter.column_refs();
    !columns.is_empty()
        && columns.iter().all(|c| c.name == TRACE_ID || c.name == PATH)
        && !filter.is_volatile()
        && !filter.contains_outer()
        && !has_subquery(filter)
}

pub(super) fn has_subquery(expr: &Expr) -> bool {
    expr.exists(|e| {
        Ok(matches!(
            e,
            Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
        ))
    })
    .unwrap_or(true)
}

/// Collects the conditions on files in a part of a plan, except below joins that also return rows
/// without a match.
fn about_files(plan: &LogicalPlan, conditions: &mut Vec<Expr>) -> Result<()> {
    plan.apply(|node| {
        match node {
            LogicalPlan::Join(join)
                if !matches!(join.join_type, JoinType::Inner | JoinType::LeftSemi) =>
            {
                return Ok(TreeNodeRecursion::Jump);
            }
            LogicalPlan::TableScan(scan) => {
                let ours = source_as_provider(&scan.source)
                    .is_ok_and(|p| table_as::<TracesTable>(p.as_ref()).is_some());
                if ours {
                    let filters = scan.filters.iter().filter(|f| is_about_files(f));
                    conditions.extend(filters.cloned());
                }
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

#[async_trait]
impl TableProvider for TracesTable {
    relation!(Base);

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| {
            if has_subquery(filter) || function::within(filter).is_some() || filter.is_volatile() {
                TableProviderFilterPushDown::Unsupported
            } else {
                TableProviderFilterPushDown::Exact
            }
        };
        Ok(filters.iter().map(support).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let files = self.files(filters)?;
        let mut builder = self.relation()?;
        let columns = builder.schema().columns();
        let plain = |filter: &Expr| {
            let by_name = |e: Expr| {
                Ok(match &e {
                    Expr::Column(c) => match columns.iter().find(|own| own.name == c.name) {
                        Some(own) => Transformed::yes(Expr::Column(own.clone())),
                        None => Transformed::no(e),
                    },
                    _ => Transformed::no(e),
                })
            };
            filter.clone().transform_up(by_name).data()
        };
        let filters = filters.iter().map(plain).collect::<Result<Vec<_>>>()?;
        if let Some(condition) = conjunction(filters) {
            builder = builder.filter(condition)?;
        }
        if let Some(projection) = projection {
            let projected = projection
                .iter()
                .map(|at| Expr::Column(columns[*at].clone()));
            builder = builder.project(projected.collect::<Vec<_>>())?;
        }
        if limit.is_some() {
            builder = builder.limit(0, limit)?;
        }
        let schema = match projection {
            Some(projection) => Arc::new(self.schema.project(projection)?),
            None => self.schema.clone(),
        };
        let parts = state.config().target_partitions();
        let plan = builder.build()?;
        let scan = TracesExec::of_files(self.scope.clone(), plan, schema, files, parts)?;
        Ok(Arc::new(scan))
    }
}
