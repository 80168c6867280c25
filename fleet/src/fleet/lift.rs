//! Lifts the parts of a plan that concern one trace at a time: joins within traces, and functions
//! that read a trace. They are computed by the scan, for each trace.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DataFusionError, Result, plan_err};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Aggregate, Expr, Join, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use super::function::{called, refusal, within};
use super::scope::Scope;
use super::table::{Subject, TRACE_ID, TracesTable, has_subquery};
use crate::node::table_as;

/// Lifts parts that concern one trace, and refuses joins across traces and calls on rows of several
/// traces.
#[derive(Debug)]
pub(super) struct LiftTraces;

impl OptimizerRule for LiftTraces {
    fn name(&self) -> &str {
        "lift_traces"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let lifted = lift(plan.clone())?;
        Ok(if lifted == plan {
            Transformed::no(plan)
        } else {
            Transformed::yes(lifted)
        })
    }
}

fn lift(plan: LogicalPlan) -> Result<LogicalPlan> {
    let (plan, local) = walk(plan)?;
    if local { lift_needed(plan) } else { Ok(plan) }
}

/// Lifts the inputs of a plan. Returns true with it if all of the plan concerns one trace at a
/// time, and can be lifted as a whole.
fn walk(plan: LogicalPlan) -> Result<(LogicalPlan, bool)> {
    let plan = plan
        .map_subqueries(|subquery| Ok(Transformed::yes(lift(subquery)?)))
        .data()?;
    if let LogicalPlan::TableScan(scan) = &plan {
        let local = traces(scan).is_some_and(|t| matches!(t.subject(), Subject::Named(_)));
        return Ok((plan, local));
    }
    let mut inputs = Vec::new();
    let mut locals = Vec::new();
    for input in plan.inputs() {
        let (input, local) = walk(input.clone())?;
        inputs.push(input);
        locals.push(local);
    }
    let all = !locals.is_empty() && locals.iter().all(|local| *local);
    let mut subqueries = false;
    plan.apply_expressions(|expr| {
        subqueries |= has_subquery(expr);
        Ok(TreeNodeRecursion::Continue)
    })?;
    let local = all
        && !subqueries
        && match &plan {
            LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) => {
                true
            }
            LogicalPlan::Aggregate(aggregate) => by_trace(aggregate),
            LogicalPlan::Join(join) => {
                if !within_traces(join) {
                    return plan_err!("{}", mixed(join));
                }
                true
            }
            _ => false,
        };
    if local {
        return Ok((with_inputs(plan, inputs)?, true));
    }
    if let Some(hoisted) = call_early(&plan)? {
        return Ok((hoisted, false));
    }
    plan.apply_expressions(|expr| match within(expr) {
        Some(name) => plan_err!("{}", refusal(&name)),
        None => Ok(TreeNodeRecursion::Continue),
    })?;
    let inputs = inputs.into_iter().zip(locals);
    let inputs = inputs
        .map(|(input, local)| if local { lift_needed(input) } else { Ok(input) })
        .collect::<Result<Vec<_>>>()?;
    Ok((with_inputs(plan, inputs)?, false))
}

fn with_inputs(plan: LogicalPlan, inputs: Vec<LogicalPlan>) -> Result<LogicalPlan> {
    if plan.inputs().into_iter().eq(inputs.iter()) {
        return Ok(plan);
    }
    plan.with_new_exprs(plan.expressions(), inputs)
}

fn traces(scan: &datafusion::logical_expr::TableScan) -> Option<TracesTable> {
    let provider = source_as_provider(&scan.source).ok()?;
    table_as(provider.as_ref()).cloned()
}

fn is_trace_id(expr: &Expr) -> bool {
    matches!(expr, Expr::Column(c) if c.name == TRACE_ID)
}

/// Returns true if each group has rows of one trace.
fn by_trace(aggregate: &Aggregate) -> bool {
    let grouping = |e: &Expr| matches!(e, Expr::GroupingSet(_));
    aggregate.group_expr.iter().any(is_trace_id) && !aggregate.group_expr.iter().any(grouping)
}

fn within_traces(join: &Join) -> bool {
    let both = |(left, right): &(Expr, Expr)| is_trace_id(left) && is_trace_id(right);
    join.on.iter().any(both)
}

/// Returns the error for a join without the trace in its condition.
fn mixed(join: &Join) -> String {
    let name = |plan: &LogicalPlan| {
        let mut name = None;
        let found = plan.apply(|node| {
            if let LogicalPlan::SubqueryAlias(alias) = node {
                name.get_or_insert(alias.alias.to_string());
            }
            if let LogicalPlan::TableScan(scan) = node {
                name.get_or_insert(scan.table_name.to_string());
            }
            Ok(TreeNodeRecursion::Continue)
        });
        found.ok().and(name).unwrap_or_default()
    };
    let (left, right) = (name(&join.left), name(&join.right));
    format!(
        "'{left}' and '{right}' are joined across traces, but ids are unique only within a trace. Join by \
         {left}.trace_id = {right}.trace_id, too, or put the join into a view, which is evaluated \
         for each trace, or query each trace alone: --per-trace."
    )
}

/// Lifts a plan if it has joins, aggregates or calls of trace functions. Scans, filters and
/// projections do not have to be lifted.
fn lift_needed(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut scope: Option<Arc<Scope>> = None;
    let mut needed = false;
    plan.apply(|node| {
        match node {
            LogicalPlan::TableScan(scan) => {
                scope = traces(scan).map(|t| t.scope().clone()).or(scope.take());
            }
            LogicalPlan::Join(_) | LogicalPlan::Aggregate(_) => needed = true,
            _ => {}
        }
        node.apply_expressions(|expr| {
            needed |= within(expr).is_some();
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    let (true, Some(scope)) = (needed, scope) else {
        return Ok(plan);
    };
    let columns = plan
        .schema()
        .iter()
        .map(|(qualifier, field)| (qualifier.cloned(), field.name().clone()));
    let columns: Vec<_> = columns.collect();
    let table = Arc::new(TracesTable::lifted(scope, plan));
    let scan = LogicalPlanBuilder::scan("__traces", provider_as_source(table), None)?;
    let columns = columns
        .into_iter()
        .enumerate()
        .map(|(at, (qualifier, name))| {
            Expr::Column(Column::new(Some("__traces"), format!("c{at}")))
                .alias_qualified(qualifier, name)
        });
    scan.project(columns.collect::<Vec<_>>())?.build()
}

/// Moves calls of trace functions below the node that combines the rows of several traces.
fn call_early(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let [input] = plan.inputs()[..] else {
        return Ok(None);
    };
    let mut calls: Vec<Expr> = Vec::new();
    let mut subqueries = false;
    plan.apply_expressions(|expr| {
        subqueries |= has_subquery(expr);
        expr.apply(|e| {
            if called(e).is_some() {
                if !calls.contains(e) {
                    calls.push(e.clone());
                }
                return Ok(TreeNodeRecursion::Jump);
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    if calls.is_empty() || subqueries {
        return Ok(None);
    }
    let Some(below) = with_calls(input, &calls)? else {
        return Ok(None);
    };
    let names = NamePreserver::new(plan);
    let replace = |expr: Expr| {
        let name = names.save(&expr);
        let replaced = expr.transform_down(|e| {
            Ok(match calls.iter().position(|call| *call == e) {
                Some(at) => Transformed::new(
                    Expr::Column(Column::from_name(format!("__call_{at}"))),
                    true,
                    TreeNodeRecursion::Jump,
                ),
                None => Transformed::no(e),
            })
        });
        Ok::<Expr, DataFusionError>(name.restore(replaced.data()?))
    };
    let expressions = plan.expressions().into_iter().map(replace);
    let expressions = expressions.collect::<Result<Vec<_>>>()?;
    let made = plan.with_new_exprs(expressions, vec![below])?;
    if matches!(made, LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_)) {
        return Ok(Some(made));
    }
    // Other nodes also return the columns of the calls, which are removed here.
    let own = plan.schema().columns().into_iter().map(Expr::Column);
    let made = LogicalPlanBuilder::from(made).project(own)?.build()?;
    Ok(Some(made))
}

/// Returns a plan with the results of calls as additional columns.
fn with_calls(plan: &LogicalPlan, calls: &[Expr]) -> Result<Option<LogicalPlan>> {
    if let LogicalPlan::Limit(_) | LogicalPlan::Sort(_) = plan {
        let Some(below) = with_calls(plan.inputs()[0], calls)? else {
            return Ok(None);
        };
        return Ok(Some(plan.with_new_exprs(plan.expressions(), vec![below])?));
    }
    let (plan, local) = walk(plan.clone())?;
    if !local {
        return Ok(None);
    }
    let own = plan.schema().columns().into_iter().map(Expr::Column);
    let made = calls.iter().enumerate();
    let made = made.map(|(at, call)| call.clone().alias(format!("__call_{at}")));
    let made = own.chain(made).collect::<Vec<_>>();
    let below = LogicalPlanBuilder::from(plan).project(made)?.build()?;
    Ok(Some(lift_needed(below)?))
}
