//! Binds plans over many traces to one trace.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, ScalarUDF, TableScan};
use ferretto_tables::TableSet;

use super::files::TraceFile;
use super::scope::Scope;
use super::table::{Subject, TracesTable};
use crate::computed::{ComputedTable, TableFunction};
use crate::intervals::IntervalTable;
use crate::node::table_as;
use crate::trace::LoadedTrace;

const TRACE_ID: &str = "$trace_id";
const PATH: &str = "$path";

/// A plan over the empty trace of the definitions, to be bound to each trace.
#[derive(Debug)]
pub(super) struct Unbound {
    plan: LogicalPlan,
    /// The tables to import.
    pub(super) tables: TableSet,
    state: SessionState,
}

impl Unbound {
    /// Replaces the names of relations in a plan by their definitions.
    pub(super) async fn new(scope: &Scope, plan: &LogicalPlan) -> Result<Self> {
        let context = scope.context().await?;
        let mut names = Vec::new();
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node
                && let Some(name) = named(scan)
            {
                names.push(name);
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        let mut relations = HashMap::new();
        for name in names {
            let provider = context.table_provider(name.as_str()).await?;
            let plan = LogicalPlanBuilder::scan(name.as_str(), provider_as_source(provider), None)?
                .build()?;
            relations.insert(name, plan);
        }
        let inline = |node: LogicalPlan| match &node {
            LogicalPlan::TableScan(scan) => match named(scan) {
                Some(name) => Ok(Transformed::yes(of_one_trace(scan, &relations[&name])?)),
                None => Ok(Transformed::no(node)),
            },
            _ => Ok(Transformed::yes(node.recompute_schema()?)),
        };
        let plan = plan.clone().transform_up_with_subqueries(inline).data()?;
        // One thread processes a trace; other threads process other traces.
        let mut state = context.state();
        state.config_mut().options_mut().execution.target_partitions = 1;
        let tables = tables(&state.optimize(&plan)?)?;
        Ok(Self {
            plan,
            tables,
            state,
        })
    }

    /// Returns the state in which bound plans run.
    pub(super) fn state(&self) -> &SessionState {
        &self.state
    }

    /// Returns the plan for the rows of one trace.
    pub(super) fn bind(
        &self,
        trace: &LoadedTrace,
        file: &TraceFile,
        scope: &Scope,
    ) -> Result<LogicalPlan> {
        let parts = Parts {
            tables: trace.providers().into_iter().collect(),
            table_functions: trace.table_functions(),
            functions: trace
                .functions(Some(scope.types.clone()))
                .into_iter()
                .map(|f| (f.name().to_owned(), Arc::new(f)))
                .collect(),
            id: &file.id,
            path: &file.path,
        };
        bind(&self.plan, &parts)
    }
}

/// The tables and functions of a trace, which replace those of the empty one.
struct Parts<'a> {
    tables: HashMap<String, Arc<dyn TableProvider>>,
    functions: HashMap<String, Arc<ScalarUDF>>,
    table_functions: Vec<Arc<dyn TableFunction>>,
    id: &'a str,
    path: &'a str,
}

fn provider(scan: &TableScan) -> Option<Arc<dyn TableProvider>> {
    source_as_provider(&scan.source).ok()
}

/// Returns the name of the relation if the scan reads a relation of many traces.
fn named(scan: &TableScan) -> Option<String> {
    let provider = provider(scan)?;
    let table = table_as::<TracesTable>(provider.as_ref())?;
    match table.subject() {
        Subject::Named(name) => Some(name.clone()),
        Subject::Lifted(_) => None,
    }
}

/// Returns a plan for the rows of a scan in one trace.
fn of_one_trace(scan: &TableScan, relation: &LogicalPlan) -> Result<LogicalPlan> {
    let text = |id: &str| {
        let field = Field::new(id, DataType::Utf8View, true);
        Expr::Placeholder(Placeholder::new_with_field(
            id.to_owned(),
            Some(Arc::new(field)),
        ))
    };
    let own = relation.schema().columns().into_iter().map(Expr::Column);
    let schema = scan.source.schema();
    let columns = own
        .chain([text(TRACE_ID), text(PATH)])
        .zip(schema.fields())
        .map(|(expr, field)| expr.alias_qualified(Some(scan.table_name.clone()), field.name()));
    let mut builder = LogicalPlanBuilder::from(relation.clone()).project(columns)?;
    if let Some(condition) = conjunction(scan.filters.iter().cloned()) {
        builder = builder.filter(condition)?;
    }
    if let Some(projection) = &scan.projection {
        let columns = builder.schema().columns();
        let projected = projection
            .iter()
            .map(|at| Expr::Column(columns[*at].clone()));
        builder = builder.project(projected.collect::<Vec<_>>())?;
    }
    if scan.fetch.is_some() {
        builder = builder.limit(0, scan.fetch)?;
    }
    builder.build()
}

fn bind(plan: &LogicalPlan, parts: &Parts<'_>) -> Result<LogicalPlan> {
    let bind_node = |node: LogicalPlan| {
        let node = match node {
            LogicalPlan::TableScan(mut scan) => {
                let source = provider(&scan);
                if let Some(own) = parts.tables.get(scan.table_name.table()) {
                    scan.source = provider_as_source(own.clone());
                } else if let Some(table) = source.as_deref().and_then(table_as::<IntervalTable>) {
                    let table = table.map_inputs(|input| bind(input, parts))?;
                    scan.source = provider_as_source(Arc::new(table));
                } else if let Some(table) = source.as_deref().and_then(table_as::<ComputedTable>) {
                    let arguments = bind(table.arguments(), parts)?;
                    let table = table.bound(&parts.table_functions, arguments);
                    scan.source = provider_as_source(Arc::new(table));
                }
                LogicalPlan::TableScan(scan)
            }
            other => other,
        };
        node.map_expressions(|expr| expr.transform_up(|e| bind_expr(e, parts)))
    };
    plan.clone().transform_up_with_subqueries(bind_node).data()
}

fn bind_expr(expr: Expr, parts: &Parts<'_>) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::ScalarFunction(mut call) => match parts.functions.get(call.func.name()) {
            Some(own) => {
                call.func = own.clone();
                Transformed::yes(Expr::ScalarFunction(call))
            }
            None => Transformed::no(Expr::ScalarFunction(call)),
        },
        Expr::Placeholder(placeholder) if placeholder.id == TRACE_ID || placeholder.id == PATH => {
            let text = if placeholder.id == TRACE_ID {
                parts.id
            } else {
                parts.path
            };
            let value = ScalarValue::Utf8View(Some(text.to_owned()));
            Transformed::yes(Expr::Literal(value, None))
        }
        other => Transformed::no(other),
    })
}

/// Returns the tables that a plan reads.
fn tables(plan: &LogicalPlan) -> Result<TableSet> {
    let mut all = TableSet::NONE;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            let name = scan.table_name.table();
            let source = provider(scan);
            if let Some(table) = source.as_deref().and_then(table_as::<IntervalTable>) {
                for input in table.inputs() {
                    all = all.union(tables(input)?);
                }
            } else if let Some(table) = source.as_deref().and_then(table_as::<ComputedTable>) {
                let own = LoadedTrace::needs(table.name());
                all = all.union(own).union(tables(table.arguments())?);
            } else if name.starts_with("__") {
                all = all.union(LoadedTrace::needs(name));
                // Ids of argument sets are assigned over the rows of all tables.
                let fields = scan.projected_schema.fields();
                if fields.iter().any(|f| f.name().ends_with("arg_set_id")) {
                    all = TableSet::ALL;
                }
            }
        }
        node.apply_expressions(|expr| {
            expr.apply(|e| {
                if let Expr::ScalarFunction(call) = e
                    && LoadedTrace::reads_trace(call.func.name())
                {
                    all = all.union(LoadedTrace::needs(call.func.name()));
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(all)
}
