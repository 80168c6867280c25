//! Table functions that compute their rows from a few values.

mod info;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableType};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, FunctionArg, FunctionArgExpr, TableFactor};
use datafusion::sql::sqlparser::parser::Parser;

use crate::sql::dialect::TraceDialect;

pub(crate) use info::TableInfo;

/// A function that is called after `FROM`. Its arguments are values, also of subqueries, but not
/// columns of preceding tables.
#[async_trait]
pub(crate) trait TableFunction: fmt::Debug + Send + Sync {
    /// Returns the name.
    fn name(&self) -> &'static str;
    /// Returns the names of the arguments.
    fn arguments(&self) -> &'static [&'static str];
    /// Returns the columns.
    fn schema(&self) -> SchemaRef;
    /// Returns the values of the columns.
    async fn rows(&self, session: &dyn Session, arguments: &[ScalarValue])
    -> Result<Vec<ArrayRef>>;
}

/// Plans the functions that are called after `FROM`.
#[derive(Debug)]
pub(crate) struct FunctionPlanner(pub(crate) Vec<Arc<dyn TableFunction>>);

impl RelationPlanner for FunctionPlanner {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let (name, arguments, alias) = match &relation {
            TableFactor::Table {
                name,
                args: Some(arguments),
                alias,
                ..
            } => (name, &arguments.args, alias),
            TableFactor::Function {
                name, args, alias, ..
            } => (name, args, alias),
            _ => return Ok(RelationPlanning::Original(Box::new(relation))),
        };
        let key = name.to_string().to_ascii_lowercase();
        let Some(function) = self.0.iter().find(|f| f.name() == key) else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let names = function.arguments();
        let values: Vec<&SqlExpr> = arguments
            .iter()
            .filter_map(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
                _ => None,
            })
            .collect();
        if values.len() != names.len() || arguments.len() != names.len() {
            return plan_err!(
                "The function '{key}' takes {} arguments ({}), not {}.",
                names.len(),
                names.join(", "),
                arguments.len()
            );
        }
        let list: Vec<String> = values
            .iter()
            .enumerate()
            .map(|(index, value)| format!("{value} AS __argument_{index}"))
            .collect();
        let sql = format!("SELECT {}", list.join(", "));
        let subquery = Parser::new(&TraceDialect)
            .try_with_sql(&sql)
            .and_then(|mut parser| parser.parse_query())?;
        let arguments = context.plan(TableFactor::Derived {
            lateral: false,
            subquery,
            alias: None,
            sample: None,
        })?;
        let table = ComputedTable {
            function: function.clone(),
            arguments,
        };
        let source = provider_as_source(Arc::new(table));
        let plan = LogicalPlanBuilder::scan(key, source, None)?.build()?;
        let planned = PlannedRelation::new(plan, alias.clone());
        Ok(RelationPlanning::Planned(Box::new(planned)))
    }
}

/// A function with its arguments.
#[derive(Debug)]
pub(crate) struct ComputedTable {
    function: Arc<dyn TableFunction>,
    arguments: LogicalPlan,
}

impl ComputedTable {
    /// Returns the name of the function.
    pub(crate) fn name(&self) -> &'static str {
        self.function.name()
    }

    /// Returns the arguments, as a plan for one row.
    pub(crate) fn arguments(&self) -> &LogicalPlan {
        &self.arguments
    }

    /// Returns the same call with the function of another trace, if that trace has one of this
    /// name.
    pub(crate) fn bound(
        &self,
        functions: &[Arc<dyn TableFunction>],
        arguments: LogicalPlan,
    ) -> Self {
        let own = functions.iter().find(|f| f.name() == self.name());
        Self {
            function: own.unwrap_or(&self.function).clone(),
            arguments,
        }
    }
}

#[async_trait]
impl TableProvider for ComputedTable {
    fn schema(&self) -> SchemaRef {
        self.function.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = state.create_physical_plan(&self.arguments).await?;
        let batches = collect(plan, state.task_ctx()).await?;
        let row = batches.iter().find(|batch| batch.num_rows() > 0);
        let values = match row {
            Some(batch) => batch
                .columns()
                .iter()
                .map(|column| ScalarValue::try_from_array(column, 0))
                .collect::<Result<Vec<_>>>()?,
            None => vec![ScalarValue::Null; self.function.arguments().len()],
        };
        let columns = self.function.rows(state, &values).await?;
        let batch = RecordBatch::try_new(self.schema(), columns)?;
        let rows =
            MemorySourceConfig::try_new_exec(&[vec![batch]], self.schema(), projection.cloned())?;
        Ok(rows)
    }
}

/// Returns an argument as a text; `None` for NULL.
pub(crate) fn text(value: &ScalarValue) -> Option<String> {
    match value {
        ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text) => {
            text.clone()
        }
        ScalarValue::Int64(Some(value)) => Some(value.to_string()),
        _ => None,
    }
}
