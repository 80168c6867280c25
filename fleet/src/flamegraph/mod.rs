//! `CREATE VIRTUAL TABLE name USING __intrinsic_flamegraph((query))`: callstacks with values, which
//! `name(__intrinsic_flamegraph_config(…))` merges to a flamegraph.

mod source;

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, exec_datafusion_err, exec_err, plan_datafusion_err, plan_err};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, FunctionArg, FunctionArgExpr, FunctionArguments, TableFactor, Value,
};

use ferretto_query::flamegraph::{Config, Flamegraph as Rows};

use crate::cells;
use crate::functions::ArrayFunction;
use crate::node::{relation, table_as};
pub(crate) use source::read;

/// The function with the configuration of a flamegraph.
const CONFIG: &str = "__intrinsic_flamegraph_config";
/// The function that selects the row above all roots.
const FIND: &str = "__intrinsic_flamegraph_find";

/// Returns the function that selects rows of flamegraphs in conditions.
pub(crate) fn find() -> ArrayFunction {
    ArrayFunction::new(FIND, 2..=2, DataType::Boolean, |_, _| {
        exec_err!("{FIND} must be a condition of a query of one flamegraph, with 'SUPER_ROOT'.")
    })
}

/// The rows of a flamegraph, as a table that has to be called with a configuration.
#[derive(Debug)]
pub(crate) struct FlamegraphTable {
    rows: Arc<Rows>,
    schema: SchemaRef,
}

impl FlamegraphTable {
    /// Returns a table of the rows.
    pub(crate) fn new(rows: Rows) -> Self {
        let schema = cells::schema(rows.columns(None).into_iter());
        Self {
            rows: Arc::new(rows),
            schema,
        }
    }
}

#[async_trait]
impl TableProvider for FlamegraphTable {
    relation!(View);

    async fn scan(
        &self,
        _state: &dyn Session,
        _projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan_err!("A flamegraph takes an argument: {CONFIG}('value', 'value', 'view', 'TOP_DOWN').")
    }
}

/// A flamegraph with its configuration.
#[derive(Debug)]
struct Flamegraph {
    rows: Arc<Rows>,
    config: Config,
    schema: SchemaRef,
}

/// Returns true for the condition that selects the row above all roots.
fn finds_root(filter: &Expr) -> bool {
    let Expr::ScalarFunction(call) = filter else {
        return false;
    };
    match (call.name(), call.args.as_slice()) {
        ("__truth", [inner]) => finds_root(inner),
        (FIND, [_, Expr::Literal(selector, _)]) => {
            selector.try_as_str().flatten() == Some("SUPER_ROOT")
        }
        _ => false,
    }
}

#[async_trait]
impl TableProvider for Flamegraph {
    relation!(View);

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| {
            if finds_root(filter) {
                TableProviderFilterPushDown::Exact
            } else {
                TableProviderFilterPushDown::Unsupported
            }
        };
        Ok(filters.iter().map(support).collect())
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let merged = if filters.iter().any(finds_root) {
            self.rows.super_root()
        } else {
            self.rows.merged(&self.config)
        };
        let merged = merged.map_err(|error| exec_datafusion_err!("{error}"))?;
        let columns = cells::arrays(&merged, &self.schema);
        let batch = RecordBatch::try_new(self.schema.clone(), columns)?;
        let rows = MemorySourceConfig::try_new_exec(
            &[vec![batch]],
            self.schema.clone(),
            projection.cloned(),
        )?;
        Ok(rows)
    }
}

/// Plans calls of flamegraphs.
#[derive(Debug)]
pub(crate) struct FlamegraphPlanner;

impl RelationPlanner for FlamegraphPlanner {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let TableFactor::Table {
            name,
            args: Some(arguments),
            alias,
            ..
        } = &relation
        else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let reference = context.object_name_to_table_reference(name.clone())?;
        let label = reference.table().to_owned();
        let known = context.context_provider().get_table_source(reference);
        let provider = known.and_then(|source| source_as_provider(&source));
        let rows = provider.ok().and_then(|provider| {
            table_as::<FlamegraphTable>(provider.as_ref()).map(|table| table.rows.clone())
        });
        let Some(rows) = rows else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] = arguments.args.as_slice()
        else {
            return plan_err!("The flamegraph '{label}' takes one argument, {CONFIG}(…).");
        };
        let Some(words) = words(argument) else {
            return plan_err!(
                "The argument of the flamegraph '{label}' must be {CONFIG}(…) with texts in quotes."
            );
        };
        let config = rows.configuration(&words);
        let config = config.map_err(|error| plan_datafusion_err!("{error}"))?;
        let table = Flamegraph {
            schema: cells::schema(rows.columns(Some(&config)).into_iter()),
            rows,
            config,
        };
        let plan = LogicalPlanBuilder::scan(label, provider_as_source(Arc::new(table)), None)?;
        let planned = PlannedRelation::new(plan.build()?, alias.clone());
        Ok(RelationPlanning::Planned(Box::new(planned)))
    }
}

/// Returns the texts of a configuration.
fn words(argument: &SqlExpr) -> Option<Vec<String>> {
    let SqlExpr::Function(call) = argument else {
        return None;
    };
    let FunctionArguments::List(list) = &call.args else {
        return None;
    };
    if !call.name.to_string().eq_ignore_ascii_case(CONFIG) {
        return None;
    }
    let word = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(SqlExpr::Value(value))) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    };
    list.args.iter().map(word).collect()
}
