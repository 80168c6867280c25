//! The scope of queries over many traces: the files, and the definitions for each of them.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, RwLock};

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::exec_datafusion_err;
use datafusion::logical_expr::ScalarUDF;
use datafusion::prelude::{SessionConfig, SessionContext};
use ferretto_tables::Options as ImportOptions;
use tokio::runtime::Handle;
use tokio::sync::OnceCell;

use super::files::{TraceFile, is_address};
use super::function::TraceFunction;
use super::import::{Importer, open};
use crate::computed::FunctionPlanner;
use crate::engine::{Engine, Options, STACK, session};
use crate::error::SqlError;
use crate::trace::{KeyTypes, LoadedTrace};

/// The files and definitions of a query over many traces.
pub(crate) struct Scope {
    pub(crate) files: Vec<TraceFile>,
    pub(crate) importer: Arc<Importer>,
    pub(crate) types: Arc<FleetTypes>,
    pub(crate) template: LoadedTrace,
    definitions: RwLock<Vec<String>>,
    context: OnceCell<SessionContext>,
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope")
            .field("files", &self.files.len())
            .field("definitions", &self.definitions)
            .finish_non_exhaustive()
    }
}

impl Scope {
    pub(crate) fn new(
        files: Vec<TraceFile>,
        importer: Arc<Importer>,
        types: Arc<FleetTypes>,
        definitions: Vec<String>,
    ) -> Result<Self, SqlError> {
        Ok(Self {
            files,
            importer,
            types,
            template: LoadedTrace::empty()?,
            definitions: RwLock::new(definitions),
            context: OnceCell::new(),
        })
    }

    /// Uses the definitions of a session.
    pub(super) fn connect(&self, context: &SessionContext) {
        // A scope is connected only once, by the session that owns it.
        let _ = self.context.set(context.clone());
    }

    pub(super) fn remember(&self, definition: String) {
        match self.definitions.write() {
            Ok(mut all) => all.push(definition),
            Err(poisoned) => poisoned.into_inner().push(definition),
        }
    }

    /// Returns the statements of the definitions.
    pub(crate) fn definitions(&self) -> Vec<String> {
        match self.definitions.read() {
            Ok(all) => all.clone(),
            Err(poisoned) => poisoned.into_inner().clone(),
        }
    }

    /// Returns the context with the definitions. A process that did not run the statements runs
    /// them here, on the first call.
    pub(super) async fn context(&self) -> Result<&SessionContext> {
        let repeat = || async { self.repeat() };
        let context = self.context.get_or_try_init(repeat).await;
        context.map_err(|e| exec_datafusion_err!("the definitions cannot be repeated: {e}"))
    }

    /// Runs the statements of the definitions in a new session.
    fn repeat(&self) -> Result<SessionContext, SqlError> {
        let failed =
            |e: &dyn std::fmt::Display| SqlError::new(format!("cannot start a thread: {e}"));
        let work = || {
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            runtime.map_err(|e| failed(&e))?.block_on(async {
                let mut engine = Engine::for_definitions(&Options::default(), self)?;
                for definition in self.definitions() {
                    engine.query(&definition).await?;
                }
                // Relations of the prelude are lazy, and plans can use all of them.
                engine.define_all().await?;
                Ok(engine.context().clone())
            })
        };
        // A thread with a large stack, for deep expressions.
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(STACK);
            let thread = thread.spawn_scoped(scope, work).map_err(|e| failed(&e))?;
            thread
                .join()
                .map_err(|_| SqlError::new("planning panicked"))?
        })
    }

    /// Returns the functions that read one trace, as placeholders for plans over many.
    pub(crate) fn functions(&self) -> Vec<ScalarUDF> {
        self.template
            .functions(Some(self.types.clone()))
            .into_iter()
            .map(|function| ScalarUDF::new_from_impl(TraceFunction::new(function)))
            .collect()
    }

    /// Returns a context with all functions and without tables.
    pub(crate) fn registry(&self) -> Result<SessionContext, SqlError> {
        let options = Options::default();
        let config = session::config(SessionConfig::new(), &options);
        let context = session::context(session::state(config, session::runtime(&options)?));
        for function in self.functions() {
            context.register_udf(function);
        }
        Ok(context)
    }
}

/// The tables of the empty trace, with the fleet's types of arguments.
impl crate::engine::Trace for Scope {
    fn register(&self, context: &SessionContext) -> Result<(), SqlError> {
        for (name, table) in self.template.providers() {
            context.register_table(name.as_str(), table)?;
        }
        for function in self.template.functions(Some(self.types.clone())) {
            context.register_udf(function);
        }
        let planner = FunctionPlanner(self.template.table_functions());
        context.register_relation_planner(Arc::new(planner))?;
        Ok(())
    }
}

/// The types of arguments. A key has the type of the first sampled trace with it.
#[derive(Debug, Default)]
pub(crate) struct FleetTypes {
    known: Mutex<HashMap<String, DataType>>,
    /// The files to sample, the first one last, and the traces already sampled.
    samples: Mutex<(Vec<TraceFile>, Vec<LoadedTrace>)>,
    handle: Option<Handle>,
}

/// The largest number of sampled traces.
const SAMPLES: usize = 4;

impl FleetTypes {
    /// Returns types that are sampled from the first files on demand.
    pub(super) fn of_files(files: &[TraceFile]) -> Self {
        let mut samples: Vec<TraceFile> = files.iter().take(SAMPLES).cloned().collect();
        samples.reverse();
        Self {
            samples: Mutex::new((samples, Vec::new())),
            handle: Handle::try_current().ok(),
            ..Self::default()
        }
    }

    /// Returns types that another process has found.
    pub(crate) fn known(known: HashMap<String, DataType>) -> Self {
        Self {
            known: Mutex::new(known),
            ..Self::default()
        }
    }

    /// Returns the types that were looked up so far.
    pub(crate) fn found(&self) -> HashMap<String, DataType> {
        let known = self.known.lock();
        known.map(|known| known.clone()).unwrap_or_default()
    }

    fn look(&self, key: &str) -> Option<DataType> {
        let handle = self.handle.as_ref()?;
        let mut samples = self.samples.lock().ok()?;
        let (files, traces) = &mut *samples;
        if let Some(found) = traces.iter().find_map(|t| t.key_types().data_type(key)) {
            return Some(found);
        }
        while let Some(file) = files.pop() {
            let options = ImportOptions::default();
            let read = || open(&file.path, &options, handle, &Default::default());
            // Reading an object store blocks, which needs another thread.
            let trace = std::thread::scope(|scope| {
                let started = std::thread::Builder::new().spawn_scoped(scope, read);
                started.map(|thread| thread.join())
            });
            let trace = match trace {
                Ok(trace) => trace,
                Err(_) if is_address(&file.path) => {
                    // A later look may have a thread.
                    files.push(file);
                    return None;
                }
                Err(_) => Ok(read()),
            };
            if let Ok(Ok(trace)) = trace {
                let found = trace.key_types().data_type(key);
                traces.push(trace);
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }
}

impl KeyTypes for FleetTypes {
    fn data_type(&self, key: &str) -> Option<DataType> {
        if let Some(known) = self.known.lock().ok()?.get(key) {
            return Some(known.clone());
        }
        let found = self.look(key)?;
        self.known
            .lock()
            .ok()?
            .insert(key.to_owned(), found.clone());
        Some(found)
    }
}
