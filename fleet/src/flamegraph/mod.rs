//! `CREATE VIRTUAL TABLE name USING __intrinsic_flamegraph((query))`: callstacks with values, which
//! `name(__intrinsic_flamegraph_config(…))` merges to a flamegraph.

mod config;
mod layout;
mod source;
mod tree;

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt32Array,
    new_null_array,
};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, exec_err, plan_err};
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

use crate::functions::{ArrayFunction, is_text, texts};
use crate::node::{relation, table_as};
use config::{Aggregate, Config};
pub(crate) use source::Source;
use tree::{Numbers, Tree};

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
    source: Arc<Source>,
    schema: SchemaRef,
}

impl FlamegraphTable {
    /// Returns a table of the rows.
    pub(crate) fn new(source: Source) -> Self {
        let schema = schema(&source, 3);
        Self {
            source: Arc::new(source),
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

/// Returns the columns for sizes from this column of values.
fn schema(source: &Source, value: usize) -> SchemaRef {
    let kind = |column: usize| source.columns[column].data_type().clone();
    let field = |name: &str, kind: DataType| Field::new(name, kind, true);
    let size = kind(value);
    let mut fields = vec![
        field("_tree_id", DataType::Int64),
        field("_tree_parent_id", DataType::Int64),
        field("depth", DataType::Int64),
        field("name", DataType::Utf8),
        field("self_value", size.clone()),
        field("cumulative_value", size.clone()),
        field("parent_cumulative_value", size.clone()),
        field("x_start", size.clone()),
        field("x_end", size),
    ];
    for column in source.properties() {
        fields.push(field(&source.names[column], kind(column)));
    }
    for column in source.properties().filter(|c| source.is_number(*c)) {
        let name = &source.names[column];
        fields.push(field(&format!("self_{name}"), kind(column)));
        fields.push(field(&format!("cumulative_{name}"), kind(column)));
    }
    Arc::new(Schema::new(fields))
}

/// A flamegraph with its configuration.
#[derive(Debug)]
struct Flamegraph {
    source: Arc<Source>,
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
        let columns = if filters.iter().any(finds_root) {
            self.root()
        } else {
            self.rows()?
        };
        let batch = RecordBatch::try_new(self.schema.clone(), columns)?;
        let rows = MemorySourceConfig::try_new_exec(
            &[vec![batch]],
            self.schema.clone(),
            projection.cloned(),
        )?;
        Ok(rows)
    }
}

impl Flamegraph {
    /// Returns the row above all roots.
    fn root(&self) -> Vec<ArrayRef> {
        let total = self.source.total();
        let column = |field: &Arc<Field>| -> ArrayRef {
            match (field.name().as_str(), field.data_type()) {
                ("_tree_id" | "depth", _) => Arc::new(Int64Array::from(vec![0])),
                ("cumulative_value", DataType::Float64) => {
                    Arc::new(Float64Array::from(vec![total]))
                }
                ("cumulative_value", _) => Arc::new(Int64Array::from(vec![total as i64])),
                (_, kind) => new_null_array(kind, 1),
            }
        };
        self.schema.fields().iter().map(column).collect()
    }

    fn rows(&self) -> Result<Vec<ArrayRef>> {
        let source = &self.source;
        let tree = tree::build(source, &self.config)?;
        let layout = layout::layout(&tree);
        let first = layout.nodes.iter().map(|node| tree.rows[*node] as u32);
        let first = UInt32Array::from_iter_values(first);
        let sizes = &tree.sums[0];
        let ids = 0..layout.nodes.len() as i64;
        let parents = layout.parents.iter().map(|row| row.map(|row| row as i64));
        let above: Vec<Option<usize>> = layout
            .parents
            .iter()
            .map(|row| row.map(|row| layout.nodes[row]))
            .collect();
        let ends = layout.nodes.iter().zip(&layout.starts);
        let ends: Vec<f64> = ends
            .map(|(node, start)| start + sizes.cumulative.real(*node))
            .collect();
        let position = |values: &[f64]| -> ArrayRef {
            match sizes.own {
                Numbers::Int(_) => Arc::new(Int64Array::from_iter_values(
                    values.iter().map(|value| *value as i64),
                )),
                Numbers::Real(_) => Arc::new(Float64Array::from(values.to_vec())),
            }
        };
        let nodes: Vec<Option<usize>> = layout.nodes.iter().map(|node| Some(*node)).collect();
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(ids)),
            Arc::new(parents.collect::<Int64Array>()),
            Arc::new(Int64Array::from(layout.depths.clone())),
            take(&source.columns[2], &first, None)?,
            picked(&sizes.own, &nodes),
            picked(&sizes.cumulative, &nodes),
            picked(&sizes.cumulative, &above),
            position(&layout.starts),
            position(&ends),
        ];
        for column in source.properties() {
            let aggregate = self.config.aggregates.iter().find(|(_, c)| *c == column);
            columns.push(if self.config.grouping.contains(&column) {
                take(&source.columns[column], &first, None)?
            } else if let Some((aggregate, _)) = aggregate {
                self.aggregated(*aggregate, column, &tree, &layout.nodes)?
            } else {
                new_null_array(source.columns[column].data_type(), layout.nodes.len())
            });
        }
        for column in source.properties().filter(|c| source.is_number(*c)) {
            let position = self.config.values.iter().position(|c| *c == column);
            match position.map(|position| &tree.sums[position]) {
                Some(sums) => {
                    columns.push(picked(&sums.own, &nodes));
                    columns.push(picked(&sums.cumulative, &nodes));
                }
                None => {
                    let kind = source.columns[column].data_type();
                    let nulls = new_null_array(kind, layout.nodes.len());
                    columns.extend([nulls.clone(), nulls]);
                }
            }
        }
        Ok(columns)
    }

    fn aggregated(
        &self,
        aggregate: Aggregate,
        column: usize,
        tree: &Tree,
        nodes: &[usize],
    ) -> Result<ArrayRef> {
        let values = &self.source.columns[column];
        let members = || {
            let nodes = nodes.iter();
            nodes.map(|node| {
                let rows = tree.members[*node].iter().copied();
                rows.filter(|row| values.is_valid(*row))
            })
        };
        if aggregate == Aggregate::Sum {
            return Ok(match values.as_primitive_opt::<Int64Type>() {
                Some(values) => {
                    let mut sums = Vec::with_capacity(nodes.len());
                    for rows in members() {
                        let mut sum: Option<i64> = None;
                        for row in rows {
                            let Some(next) = sum.unwrap_or(0).checked_add(values.value(row)) else {
                                return exec_err!(
                                    "flamegraph: the sum of '{}' is too large",
                                    self.source.names[column]
                                );
                            };
                            sum = Some(next);
                        }
                        sums.push(sum);
                    }
                    Arc::new(Int64Array::from(sums))
                }
                None => {
                    let values = values.as_primitive::<Float64Type>();
                    let sum = |rows: &mut dyn Iterator<Item = usize>| {
                        rows.map(|row| values.value(row)).reduce(|a, b| a + b)
                    };
                    let sums = members().map(|mut rows| sum(&mut rows));
                    Arc::new(sums.collect::<Float64Array>())
                }
            });
        }
        let texts = texts(values)?;
        let summary = |rows: &mut dyn Iterator<Item = usize>| {
            let all: Vec<&str> = rows.map(|row| texts.value(row)).collect();
            let first = *all.first()?;
            if aggregate == Aggregate::Concat {
                return Some(all.join(",")).filter(|text| !text.is_empty());
            }
            match all.into_iter().collect::<BTreeSet<_>>().len() {
                1 => Some(first.to_owned()),
                count => Some(format!("{first} and {count} others")),
            }
        };
        let summaries = members().map(|mut rows| summary(&mut rows));
        Ok(Arc::new(summaries.collect::<StringArray>()))
    }
}

/// Returns the numbers of these nodes.
fn picked(numbers: &Numbers, nodes: &[Option<usize>]) -> ArrayRef {
    match numbers {
        Numbers::Int(values) => {
            let values = nodes.iter().map(|node| node.map(|node| values[node]));
            Arc::new(values.collect::<Int64Array>())
        }
        Numbers::Real(values) => {
            let values = nodes.iter().map(|node| node.map(|node| values[node]));
            Arc::new(values.collect::<Float64Array>())
        }
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
        let source = provider.ok().and_then(|provider| {
            table_as::<FlamegraphTable>(provider.as_ref()).map(|table| table.source.clone())
        });
        let Some(source) = source else {
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
        let config = Config::parse(&words, &source)?;
        let mut fields = schema(&source, config.values[0]).fields().to_vec();
        for (aggregate, column) in &config.aggregates {
            let name = &source.names[*column];
            if *aggregate != Aggregate::Sum && !is_text(source.columns[*column].data_type()) {
                for field in &mut fields {
                    if field.name() == name {
                        *field = Arc::new(Field::new(name, DataType::Utf8, true));
                    }
                }
            }
        }
        let table = Flamegraph {
            source,
            config,
            schema: Arc::new(Schema::new(fields)),
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
