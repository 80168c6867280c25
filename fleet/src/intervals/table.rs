//! Interval operators as tables. Their inputs are planned when the table is scanned.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{ExprSchema, Result, plan_err};
use datafusion::datasource::provider_as_source;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, cast, lit};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, FunctionArg, FunctionArgExpr, TableFactor, Value,
};

use super::exec::{IntervalExec, SpanKind, Work};
use crate::error::SqlError;
use crate::node::relation;

/// An interval operator over queries.
#[derive(Debug, Clone)]
pub(crate) struct IntervalTable {
    work: Work,
    inputs: Vec<LogicalPlan>,
    keys: Vec<usize>,
    schema: SchemaRef,
}

impl IntervalTable {
    /// Returns the input queries.
    pub(crate) fn inputs(&self) -> &[LogicalPlan] {
        &self.inputs
    }

    /// Returns the operator with mapped inputs, which must have the same columns.
    pub(crate) fn map_inputs(
        &self,
        map: impl FnMut(&LogicalPlan) -> Result<LogicalPlan>,
    ) -> Result<Self> {
        let inputs = self.inputs.iter().map(map).collect::<Result<Vec<_>>>()?;
        Ok(Self {
            inputs,
            ..self.clone()
        })
    }
}

#[async_trait]
impl TableProvider for IntervalTable {
    relation!(View);

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut inputs = Vec::new();
        for plan in &self.inputs {
            inputs.push(state.create_physical_plan(plan).await?);
        }
        let exec = IntervalExec::new(self.work, inputs, self.keys.clone(), self.schema.clone());
        // The inputs are sorted and partitioned here, since the rules for the whole plan may not
        // look below a projection that they added.
        let mut plan: Arc<dyn ExecutionPlan> = Arc::new(exec);
        if let Some(state) = state.as_any().downcast_ref::<SessionState>() {
            for rule in state.physical_optimizers() {
                if matches!(rule.name(), "EnforceDistribution" | "EnforceSorting") {
                    plan = rule.optimize(plan, state.config_options())?;
                }
            }
        }
        let Some(projection) = projection else {
            return Ok(plan);
        };
        let columns = projection.iter().map(|index| {
            let name = self.schema.field(*index).name();
            ProjectionExpr {
                expr: Arc::new(Column::new(name, *index)),
                alias: name.clone(),
            }
        });
        Ok(Arc::new(ProjectionExec::try_new(
            columns.collect::<Vec<_>>(),
            plan,
        )?))
    }
}

/// Returns the plan with the columns in the order of [`Work`]: its keys, `ts`, `dur` and the
/// others.
fn layout(plan: LogicalPlan, keys: &[String], id: bool) -> Result<LogicalPlan, SqlError> {
    let fields: Vec<(Expr, String)> = plan
        .schema()
        .columns()
        .into_iter()
        .map(|c| (Expr::Column(c.clone()), c.name))
        .collect();
    let find = |name: &str| {
        fields
            .iter()
            .find(|(_, n)| n.eq_ignore_ascii_case(name))
            .map(|(e, _)| e.clone())
    };
    let missing = |name: &str| {
        let names: Vec<&str> = fields.iter().map(|(_, n)| n.as_str()).collect();
        SqlError::new(format!(
            "An input of the interval join has no column '{name}'. Its columns are {}.",
            names.join(", ")
        ))
    };
    let integer = |expr: Expr| cast(expr, DataType::Int64);
    let mut columns = Vec::new();
    let mut present = None;
    for key in keys {
        let column = find(key).ok_or_else(|| missing(key))?;
        let known = column.clone().is_not_null();
        present = Some(match present {
            Some(before) => Expr::and(before, known),
            None => known,
        });
        let kind = column.get_type(plan.schema())?;
        columns.push(match kind {
            DataType::Utf8 if id => column.alias(key),
            _ => integer(column).alias(key),
        });
    }
    columns.push(integer(find("ts").ok_or_else(|| missing("ts"))?).alias("ts"));
    columns.push(integer(find("dur").unwrap_or_else(|| lit(0i64))).alias("dur"));
    if id {
        columns.push(integer(find("id").ok_or_else(|| missing("id"))?).alias("id"));
    } else {
        for (column, name) in &fields {
            let known = keys.iter().any(|k| k.eq_ignore_ascii_case(name));
            if !known && name != "ts" && name != "dur" {
                columns.push(column.clone());
            }
        }
    }
    let mut builder = LogicalPlanBuilder::from(plan);
    if let Some(present) = present {
        builder = builder.filter(present)?;
    }
    Ok(builder.project(columns)?.build()?)
}

fn field(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, true)
}

/// Returns the table of a span join.
pub fn span_table(
    kind: SpanKind,
    plans: Vec<LogicalPlan>,
    partitions: [Option<String>; 2],
) -> Result<Arc<dyn TableProvider>, SqlError> {
    if let [Some(a), Some(b)] = &partitions
        && a != b
    {
        return Err(SqlError::new(format!(
            "Both sides of a span join must be partitioned by the same column, not '{a}' and '{b}'."
        )));
    }
    let key = partitions.iter().flatten().next().cloned();
    let mut fields = vec![field("ts", DataType::Int64), field("dur", DataType::Int64)];
    fields.extend(key.as_deref().map(|k| field(k, DataType::Int64)));
    let mut seen: HashSet<String> = fields.iter().map(|f| f.name().clone()).collect();
    let mut inputs = Vec::new();
    let mut keys = Vec::new();
    for (plan, partition) in plans.into_iter().zip(&partitions) {
        let names: Vec<String> = partition.iter().cloned().collect();
        let plan = layout(plan, &names, false)?;
        for f in plan.schema().fields().iter().skip(names.len() + 2) {
            if !seen.insert(f.name().clone()) {
                return Err(SqlError::new(format!(
                    "Both sides of the span join have a column '{}': rename one in a view.",
                    f.name()
                )));
            }
            fields.push(field(f.name(), f.data_type().clone()));
        }
        keys.push(names.len());
        inputs.push(plan);
    }
    let schema = Arc::new(Schema::new(fields));
    Ok(Arc::new(IntervalTable {
        work: Work::Span(kind),
        inputs,
        keys,
        schema,
    }))
}

fn intersect_table(plans: Vec<LogicalPlan>, keys: &[String]) -> Result<IntervalTable, SqlError> {
    let mut fields = vec![field("ts", DataType::Int64), field("dur", DataType::Int64)];
    for index in 0..plans.len() {
        fields.push(field(&format!("id_{index}"), DataType::Int64));
    }
    let count = plans.len();
    let inputs = plans
        .into_iter()
        .map(|p| layout(p, keys, true))
        .collect::<Result<Vec<_>, _>>()?;
    for (index, key) in keys.iter().enumerate() {
        let kind = |plan: &LogicalPlan| plan.schema().field(index).data_type().clone();
        let first = kind(&inputs[0]);
        if inputs.iter().any(|input| kind(input) != first) {
            return Err(SqlError::new(format!(
                "The column '{key}' has texts in one input of the intersection and numbers in another."
            )));
        }
        fields.push(field(key, first));
    }
    Ok(IntervalTable {
        work: Work::Intersect,
        inputs,
        keys: vec![keys.len(); count],
        schema: Arc::new(Schema::new(fields)),
    })
}

/// Returns the table of the pieces of one input's intervals, with the members of each piece.
fn members_table(plans: Vec<LogicalPlan>) -> Result<IntervalTable, SqlError> {
    let columns = ["ts", "dur", "id", "interval_ends_at_ts"];
    let fields = columns.map(|name| field(name, DataType::Int64)).to_vec();
    Ok(IntervalTable {
        work: Work::Members,
        inputs: plans
            .into_iter()
            .map(|p| layout(p, &[], true))
            .collect::<Result<Vec<_>, _>>()?,
        keys: vec![0],
        schema: Arc::new(Schema::new(fields)),
    })
}

/// Returns the table with all columns of the left side, and those of the right side other than its
/// keys. Right columns with names of the left side are prefixed with `right_`.
fn as_of_table(plans: Vec<LogicalPlan>, keys: &[String]) -> Result<IntervalTable, SqlError> {
    let mut inputs = Vec::new();
    let mut fields: Vec<Field> = Vec::new();
    for (side, plan) in plans.into_iter().enumerate() {
        let columns = plan.schema().columns();
        let mut kept = Vec::new();
        for column in columns {
            let mut name = column.name.clone();
            if side == 1 {
                if keys.contains(&name) {
                    continue;
                }
                if name == "ts" || fields.iter().any(|f| *f.name() == name) {
                    name = format!("right_{name}");
                }
            }
            let data_type = plan
                .schema()
                .field_from_column(&column)?
                .data_type()
                .clone();
            fields.push(field(&name, data_type));
            kept.push(Expr::Column(column).alias(format!("__{name}")));
        }
        // The columns of the layout come first; all columns of the input follow.
        let find = |name: &str| {
            plan.schema()
                .columns()
                .into_iter()
                .find(|c| c.name == name)
                .map(Expr::Column)
        };
        let mut columns = Vec::new();
        for name in keys.iter().map(String::as_str).chain(["ts"]) {
            let Some(column) = find(name) else {
                return Err(SqlError::new(format!(
                    "A side of asof_join has no column '{name}'."
                )));
            };
            columns.push(cast(column, DataType::Int64).alias(name));
        }
        columns.push(lit(0i64).alias("dur"));
        columns.extend(kept);
        inputs.push(LogicalPlanBuilder::from(plan).project(columns)?.build()?);
    }
    let keys = vec![keys.len(); 2];
    Ok(IntervalTable {
        work: Work::AsOf,
        inputs,
        keys,
        schema: Arc::new(Schema::new(fields)),
    })
}

/// The names of the operators in macros.
pub(crate) const OPERATORS: [&str; 3] = [
    "__interval_intersect",
    "__interval_self_intersect",
    "__asof_join",
];

/// Plans the operators that are called after `FROM`, with their inputs.
#[derive(Debug)]
pub struct IntervalPlanner;

impl RelationPlanner for IntervalPlanner {
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
        let name = name.to_string().to_ascii_lowercase();
        if !OPERATORS.contains(&name.as_str()) {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        let mut plans = Vec::new();
        let mut keys = Vec::new();
        for argument in &arguments.args {
            match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(SqlExpr::Subquery(subquery))) => {
                    plans.push(context.plan(TableFactor::Derived {
                        lateral: false,
                        subquery: subquery.clone(),
                        alias: None,
                        sample: None,
                    })?);
                }
                FunctionArg::Unnamed(FunctionArgExpr::Expr(SqlExpr::Value(value))) => {
                    if let Value::SingleQuotedString(key) = &value.value {
                        keys.push(key.trim().to_ascii_lowercase());
                    }
                }
                other => return plan_err!("{name} does not take {other}"),
            }
        }
        let table = match name.as_str() {
            "__asof_join" => as_of_table(plans, &keys)?,
            "__interval_self_intersect" => members_table(plans)?,
            _ => intersect_table(plans, &keys)?,
        };
        let source = provider_as_source(Arc::new(table));
        let plan = LogicalPlanBuilder::scan(name, source, None)?.build()?;
        let planned = PlannedRelation::new(plan, alias.clone());
        Ok(RelationPlanning::Planned(Box::new(planned)))
    }
}
