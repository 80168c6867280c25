//! The DataFusion session: limits, functions, and the behaviour of SQLite.

use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::optimizer::analyzer::resolve_grouping_function::ResolveGroupingFunction;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use datafusion::prelude::{SessionConfig, SessionContext};

use super::{MAX_SPILL, Options};
use crate::computed::{FunctionPlanner, TableInfo};
use crate::error::SqlError;
use crate::flamegraph::{self, FlamegraphPlanner};
use crate::functions;
use crate::intervals::IntervalPlanner;
use crate::order::InOrder;
use crate::planner::{MixedTypes, SqlitePlanner};
use crate::trace::LookupById;

/// The engine's functions whose results are as long as a number says. Their memory is not counted
/// in the limit, SQLite has none of them, and there are table functions for rows.
const UNBOUNDED: [&str; 7] = [
    "array_repeat",
    "array_resize",
    "generate_series",
    "lpad",
    "range",
    "repeat",
    "rpad",
];

/// Returns the configuration for these limits.
pub(crate) fn config(base: SessionConfig, options: &Options) -> SessionConfig {
    let mut config = base.with_information_schema(false);
    if options.threads > 0 {
        config = config.with_target_partitions(options.threads);
    }
    let options = config.options_mut();
    options.sql_parser.default_null_ordering = "nulls_min".to_owned();
    // Rows keep the order of a subquery, as in SQLite.
    options.sql_parser.enable_subquery_sort_elimination = false;
    // The inputs of interval operators are optimized twice, which joins with such filters refuse.
    options.optimizer.enable_join_dynamic_filter_pushdown = false;
    config
}

/// Returns the environment of queries with its memory limit.
pub(crate) fn runtime(options: &Options) -> Result<Arc<RuntimeEnv>, SqlError> {
    let spill = options.max_spill.unwrap_or(MAX_SPILL);
    let mut runtime = RuntimeEnvBuilder::new().with_max_temp_directory_size(spill);
    if spill == 0 {
        let mode = DiskManagerMode::Disabled;
        runtime = runtime.with_disk_manager_builder(DiskManagerBuilder::default().with_mode(mode));
    }
    if options.memory_limit > 0 {
        let limit = usize::try_from(options.memory_limit).unwrap_or(usize::MAX);
        let pool = TrackConsumersPool::new(FairSpillPool::new(limit), NonZeroUsize::MIN);
        runtime = runtime.with_memory_pool(Arc::new(pool));
    }
    Ok(Arc::new(runtime.build()?))
}

/// Returns a session with our planners, without our functions.
pub(crate) fn state(config: SessionConfig, runtime: Arc<RuntimeEnv>) -> SessionState {
    let mut builder = SessionStateBuilder::new_with_default_features()
        .with_config(config)
        .with_runtime_env(runtime);
    if let Some(functions) = builder.scalar_functions() {
        functions.retain(|function| !UNBOUNDED.contains(&function.name()));
    }
    let state = builder.build();
    let mut planners = state.expr_planners().to_vec();
    let planner = SqlitePlanner::new(&functions::all());
    planners.insert(0, Arc::new(planner.clone()));
    SessionStateBuilder::new_from_existing(state)
        .with_expr_planners(planners)
        .with_relation_planners(vec![
            Arc::new(IntervalPlanner),
            Arc::new(FlamegraphPlanner),
            Arc::new(FunctionPlanner(vec![Arc::new(TableInfo)])),
        ])
        .with_analyzer_rules(vec![
            Arc::new(MixedTypes::new(planner)),
            Arc::new(ResolveGroupingFunction::new()),
            Arc::new(TypeCoercion::new()),
        ])
        .build()
}

/// Returns a session whose results keep the order of their partitions.
pub(crate) fn in_order(mut state: SessionState) -> SessionState {
    let options = state.config_mut().options_mut();
    options.optimizer.enable_round_robin_repartition = false;
    let mut rules = state.physical_optimizers().to_vec();
    // First, since the engine's own rules choose the sides and the partitions of hash joins.
    rules.insert(0, Arc::new(LookupById));
    rules.push(Arc::new(InOrder));
    SessionStateBuilder::new_from_existing(state)
        .with_physical_optimizer_rules(rules)
        .build()
}

/// Returns a context with the functions that do not read a trace.
pub(crate) fn context(state: SessionState) -> SessionContext {
    let context = SessionContext::new_with_state(state);
    for function in functions::all() {
        context.register_udf(function);
    }
    context.register_udf(flamegraph::find().udf());
    context.register_udwf(functions::internal_layout());
    context
}
