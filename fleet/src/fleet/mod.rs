//! Queries over many traces.
//!
//! Definitions (views, tables, functions, modules) are evaluated for each trace. In a query, such a
//! relation has the rows of all traces, with the columns `trace_id` and `path`. Traces are imported
//! one after the other, each with the tables that the plan needs, and then dropped.

mod bind;
mod exec;
mod export;
mod files;
mod function;
mod import;
mod lift;
mod scope;
mod table;

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::AsArray;
use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider, SchemaProvider, TableProvider};
use datafusion::common::Result;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::planner::{
    RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::sqlparser::ast::TableFactor;

use crate::computed::{TableFunction, TableInfo};
use crate::engine::{Options, Trace, session};
use crate::error::SqlError;
use crate::intervals::OPERATORS;
use crate::trace::LoadedTrace;

pub(crate) use exec::TracesExec;
pub use export::{Exported, RELATIONS, export};
pub use files::{TraceFile, find, is_address, is_pattern};
pub use import::{Failure, Importer};
pub(crate) use scope::{FleetTypes, Scope};
pub(crate) use table::{Subject, TracesTable};

/// Many traces, and the context that plans queries over them.
pub struct Fleet {
    scope: Arc<Scope>,
    pub(crate) context: SessionContext,
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fleet")
            .field("traces", &self.scope.files.len())
            .finish_non_exhaustive()
    }
}

impl Fleet {
    /// Returns a fleet of these files.
    pub fn new(
        options: &Options,
        files: Vec<TraceFile>,
        importer: Arc<Importer>,
    ) -> Result<Self, SqlError> {
        let config = session::config(SessionConfig::new(), options);
        let state = session::state(config, session::runtime(options)?);
        Self::with_state(state, files, importer)
    }

    /// Returns a fleet whose queries are planned with the settings of a session.
    pub(crate) fn with_state(
        state: SessionState,
        files: Vec<TraceFile>,
        importer: Arc<Importer>,
    ) -> Result<Self, SqlError> {
        let types = Arc::new(FleetTypes::of_files(&files));
        let scope = Arc::new(Scope::new(files, importer, types, Vec::new())?);
        let context = prepare(&scope, state)?;
        Ok(Self { scope, context })
    }

    /// Returns the traces that could not be read, by this process or by executors.
    pub(crate) async fn unreadable(&self) -> Result<Vec<Failure>, SqlError> {
        let table = TracesTable::unreadable(self.scope.clone());
        let batches = self.context.read_table(Arc::new(table))?.collect().await?;
        let mut failures = Vec::new();
        for batch in batches {
            let (reasons, paths) = (
                batch.column(0).as_string_view(),
                batch.column(2).as_string_view(),
            );
            for (reason, path) in reasons.iter().zip(paths) {
                failures.push(Failure {
                    path: path.unwrap_or_default().to_owned(),
                    reason: reason.unwrap_or_default().to_owned(),
                });
            }
        }
        failures.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(failures)
    }

    /// Returns the files of the traces.
    pub fn files(&self) -> &[TraceFile] {
        &self.scope.files
    }

    pub(crate) fn template(&self) -> &dyn Trace {
        self.scope.as_ref()
    }

    pub(crate) fn connect(&self, definitions: &SessionContext) {
        self.scope.connect(definitions);
    }

    pub(crate) fn remember(&self, definition: String) {
        self.scope.remember(definition);
    }

    pub(crate) fn context(&self) -> &SessionContext {
        &self.context
    }
}

/// Returns a context whose relations have the rows of all traces.
fn prepare(scope: &Arc<Scope>, state: SessionState) -> Result<SessionContext, SqlError> {
    let state = SessionStateBuilder::new_from_existing(state)
        .with_relation_planners(vec![Arc::new(OneTrace::new(&scope.template))])
        .with_optimizer_rule(Arc::new(lift::LiftTraces))
        .build();
    let context = session::context(state);
    for function in scope.functions() {
        context.register_udf(function);
    }
    let catalog = Arc::new(MemoryCatalogProvider::new());
    catalog.register_schema("public", Arc::new(Relations(scope.clone())))?;
    context.register_catalog("datafusion", catalog);
    Ok(context)
}

/// The relations of all traces, by name.
#[derive(Debug)]
struct Relations(Arc<Scope>);

#[async_trait]
impl SchemaProvider for Relations {
    fn table_names(&self) -> Vec<String> {
        Vec::new()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let context = self.0.context().await?;
        if !context.table_exist(name)? {
            return Ok(None);
        }
        let relation = context.table_provider(name).await?;
        let table = TracesTable::named(self.0.clone(), name, &relation.schema());
        Ok(Some(Arc::new(table)))
    }

    fn table_exist(&self, _: &str) -> bool {
        // `table` returns the error if it does not exist.
        true
    }
}

/// Refuses interval operators and table functions on rows of several traces.
#[derive(Debug)]
struct OneTrace {
    functions: Vec<&'static str>,
}

impl OneTrace {
    fn new(template: &LoadedTrace) -> Self {
        let own = template.table_functions();
        let mut functions: Vec<_> = own.iter().map(|function| function.name()).collect();
        functions.push(TableInfo.name());
        Self { functions }
    }
}

impl RelationPlanner for OneTrace {
    fn plan_relation(
        &self,
        relation: TableFactor,
        _: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        if let TableFactor::Table {
            name,
            args: Some(_),
            ..
        } = &relation
        {
            let name = name.to_string().to_ascii_lowercase();
            let subject = if OPERATORS.contains(&name.as_str()) {
                let name = name.trim_start_matches('_');
                format!("The operator '{name}' joins rows")
            } else if self.functions.contains(&name.as_str()) {
                format!("The table function '{name}' reads rows")
            } else {
                return Ok(RelationPlanning::Original(Box::new(relation)));
            };
            return datafusion::common::plan_err!(
                "{subject} of one trace, but the rows here are of several. Use it in a view \
                 (CREATE PERFETTO VIEW is evaluated for each trace), or query each trace alone: \
                 --per-trace."
            );
        }
        Ok(RelationPlanning::Original(Box::new(relation)))
    }
}
