//! A trace as tables and functions of the engine.

mod args;
mod array;
mod computed;
mod condition;
mod ftrace;
mod json;
mod lookup;
mod metadata;
mod pairs;
mod scan;
mod slices;
mod table;

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::logical_expr::{ScalarUDF, ScalarUDFImpl};
use datafusion::prelude::SessionContext;
use ferretto_tables::{Progress, TableId, TableSet, Trace as Tables, Value};

use crate::computed::{FunctionPlanner, TableFunction};
use crate::engine::Trace;
use crate::error::SqlError;
use crate::functions::Clocks;

pub(crate) use args::KeyTypes;
pub(crate) use lookup::LookupById;
pub(crate) use scan::record_batch;
pub use table::TraceTable;

/// An imported trace.
#[derive(Debug, Clone)]
pub struct LoadedTrace {
    tables: Arc<Tables>,
    texts: Arc<array::Texts>,
}

impl LoadedTrace {
    /// Imports a file.
    pub fn open(
        path: &Path,
        options: &ferretto_tables::Options,
        progress: impl FnMut(Progress) -> ferretto_tables::Continue,
    ) -> Result<Self, SqlError> {
        let tables = Tables::open(path, options, progress).map_err(|e| import_error(&e))?;
        Ok(Self::new(tables))
    }

    /// Imports the bytes of a file.
    pub fn read(bytes: &[u8], options: &ferretto_tables::Options) -> Result<Self, SqlError> {
        Self::read_from(bytes, options)
    }

    /// Returns a trace without rows.
    pub(crate) fn empty() -> Result<Self, SqlError> {
        Self::read(&[], &ferretto_tables::Options::default())
    }

    /// Imports the bytes of a reader.
    pub(crate) fn read_from(
        input: impl Read + Send,
        options: &ferretto_tables::Options,
    ) -> Result<Self, SqlError> {
        let tables = Tables::read(input, options).map_err(|e| import_error(&e))?;
        Ok(Self::new(tables))
    }

    fn new(tables: Tables) -> Self {
        let texts = Arc::new(array::Texts::new(tables.strings()));
        Self {
            tables: Arc::new(tables),
            texts,
        }
    }

    /// Returns the tables.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Returns the statistics of errors and losses that are not 0.
    pub fn health(&self) -> Vec<Health> {
        let Some(stats) = self.tables.table("stats") else {
            return Vec::new();
        };
        let column = |name: &str| stats.column_by_name(name);
        let (Some(name), Some(idx), Some(severity), Some(source), Some(value), Some(description)) = (
            column("name"),
            column("idx"),
            column("severity"),
            column("source"),
            column("value"),
            column("description"),
        ) else {
            return Vec::new();
        };
        let text = |value: Value| match value {
            Value::Text(id) => self.tables.strings().text(id).to_owned(),
            _ => String::new(),
        };
        (0..stats.rows())
            .filter_map(|row| {
                let severity = text(severity.get(row));
                let Value::Int(count) = value.get(row) else {
                    return None;
                };
                if count <= 0 || !matches!(severity.as_str(), "error" | "data_loss") {
                    return None;
                }
                let index = match idx.get(row) {
                    Value::Int(index) => format!("[{index}]"),
                    _ => String::new(),
                };
                Some(Health {
                    severity,
                    source: text(source.get(row)),
                    name: format!("{}{index}", text(name.get(row))),
                    value: count,
                    description: text(description.get(row)),
                })
            })
            .collect()
    }
}

/// A statistic of errors or losses.
#[derive(Debug, Clone)]
pub struct Health {
    /// `error` or `data_loss`.
    pub severity: String,
    /// `trace` or `analysis`.
    pub source: String,
    /// The name with its index, if it has one.
    pub name: String,
    /// The value.
    pub value: i64,
    /// The description.
    pub description: String,
}

fn import_error(error: &dyn std::error::Error) -> SqlError {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        message += &format!(": {inner}");
        source = inner.source();
    }
    SqlError::new(message)
}

/// The prefix of the names of imported tables.
pub(crate) const BASE: &str = "__intrinsic_";

impl LoadedTrace {
    /// Returns all tables that read the trace, with their names.
    pub(crate) fn providers(&self) -> Vec<(String, Arc<dyn TableProvider>)> {
        let mut providers: Vec<(String, Arc<dyn TableProvider>)> = Vec::new();
        for id in TableId::ALL {
            let table = TraceTable::new(self.tables.clone(), self.texts.clone(), *id);
            providers.push((format!("{BASE}{}", id.spec().name), Arc::new(table)));
        }
        for table in pairs::tables(&self.tables) {
            providers.push((table.name().to_owned(), Arc::new(table)));
        }
        providers
    }

    /// Returns the scalar functions that read the trace. The types of keys of arguments are
    /// `types`, or those of this trace.
    pub(crate) fn functions(&self, types: Option<Arc<dyn KeyTypes>>) -> Vec<ScalarUDF> {
        let is_alone = types.is_none();
        let mut functions = args::functions(&self.tables, types);
        functions.extend(metadata::functions(&self.tables, is_alone));
        functions.extend([
            json::function(&self.tables).udf(),
            slices::function(&self.tables).udf(),
            ftrace::function(&self.tables).udf(),
        ]);
        functions.extend(self.clocks().functions().into_iter().map(|f| f.udf()));
        functions
    }

    /// Returns the table functions that read the trace.
    pub(crate) fn table_functions(&self) -> Vec<Arc<dyn TableFunction>> {
        computed::functions(&self.tables)
    }

    /// Returns true if the function reads the trace.
    pub(crate) fn reads_trace(name: &str) -> bool {
        args::needs(name).is_some()
            || metadata::reads(name)
            || [json::NAME, slices::NAME, ftrace::NAME].contains(&name)
            || Self::clock_functions().any(|clock| clock == name)
    }

    fn clock_functions() -> impl Iterator<Item = String> {
        let functions = Clocks::default().functions().into_iter();
        functions.map(|f| f.name().to_owned())
    }

    /// Returns the types of keys of arguments in this trace.
    pub(crate) fn key_types(&self) -> impl KeyTypes + use<> {
        args::Keys::new(&self.tables)
    }

    /// Returns the tables to import for a table or a function; all if that is unknown.
    pub(crate) fn needs(name: &str) -> TableSet {
        match name.strip_prefix(BASE).and_then(TableId::by_name) {
            // Spurious wakeups are found while importing thread states.
            Some(id @ TableId::spurious_sched_wakeup) => TableSet::of(&[id, TableId::thread_state]),
            Some(TableId::args) => TableSet::ALL,
            Some(id) => TableSet::of(&[id]),
            None => pairs::needs(name)
                .or_else(|| args::needs(name))
                .or_else(|| {
                    let tables = [TableId::clock_snapshot, TableId::trace_bounds];
                    let clock = Self::clock_functions().any(|clock| clock == name);
                    clock.then(|| TableSet::of(&tables))
                })
                .unwrap_or(TableSet::ALL),
        }
    }
}

impl Trace for LoadedTrace {
    fn register(&self, context: &SessionContext) -> Result<(), SqlError> {
        for (name, table) in self.providers() {
            context.register_table(name.as_str(), table)?;
        }
        for function in self.functions(None) {
            context.register_udf(function);
        }
        let planner = FunctionPlanner(self.table_functions());
        context.register_relation_planner(Arc::new(planner))?;
        Ok(())
    }

    fn rows(&self) -> usize {
        let rows = |id: &TableId| self.tables.tables().table(*id).rows();
        TableId::ALL.iter().map(rows).sum()
    }
}

impl LoadedTrace {
    fn clocks(&self) -> Clocks {
        let mut clocks = Clocks::default();
        let tables = self.tables.tables();
        for row in 0..tables.clock_snapshot.len() {
            let snapshot = (
                tables.clock_snapshot.ts().get(row),
                tables.clock_snapshot.clock_value().get(row),
            );
            match tables.clock_snapshot.clock_id().get(row) {
                1 => clocks.realtime.push(snapshot),
                3 => clocks.monotonic.push(snapshot),
                _ => {}
            }
        }
        clocks.realtime.sort_by_key(|(ts, _)| *ts);
        clocks.monotonic.sort_by_key(|(ts, _)| *ts);
        if !tables.trace_bounds.is_empty() {
            clocks.bounds = (
                tables.trace_bounds.start_ts().get(0),
                tables.trace_bounds.end_ts().get(0),
            );
        }
        clocks
    }
}

/// Returns a description of the tables and their columns as Markdown.
pub fn schema_docs() -> String {
    ferretto_tables::schema::reference()
}
