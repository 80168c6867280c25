//! The state of a trace processor: the trace, and the session over it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ferretto_tables::{Continue, Trace};
use ferretto_wire::{Fields, encode};

use super::fields::{
    export_arguments, export_format as format, metatrace_result, query_arguments,
    register_sql_package as package, sql_module, statement_arguments, status_result,
};
use super::metatrace::Metatrace;
use super::result::{ResultWriter, StatementHead};
use super::{API_VERSION, UPSTREAM_VERSION};
use crate::engine::{Engine, Options};
use crate::error::SqlError;
use crate::export::{ExportFormat, export};
use crate::summary::Summarizer;
use crate::syntax::lexer::statement_after;

/// A trace processor, used by one client at a time.
#[derive(Debug)]
pub struct Processor {
    options: Options,
    import: ferretto_tables::Options,
    modules: Vec<(String, String)>,
    trace: Arc<Trace>,
    pub(super) engine: Engine,
    pub(super) summarizers: BTreeMap<String, Summarizer>,
    /// The number of summarizers that were created.
    pub(super) created_summarizers: u64,
    pub(super) metatrace: Metatrace,
    name: String,
    /// The received bytes of an incomplete trace.
    pending: Vec<u8>,
    complete: bool,
}

fn failed(error: &impl std::fmt::Display) -> SqlError {
    SqlError::new(error.to_string())
}

impl Processor {
    /// Returns a processor without a trace.
    ///
    /// # Errors
    ///
    /// Fails if SQLite has no memory.
    pub fn new(
        options: Options,
        import: ferretto_tables::Options,
        modules: Vec<(String, String)>,
    ) -> Result<Self, SqlError> {
        let trace = Trace::read(&[][..], &import).map_err(|error| failed(&error))?;
        let trace = Arc::new(trace);
        let engine = session(&options, &trace, &modules)?;
        Ok(Self {
            options,
            import,
            modules,
            trace,
            engine,
            summarizers: BTreeMap::new(),
            created_summarizers: 0,
            metatrace: Metatrace::default(),
            name: String::new(),
            pending: Vec::new(),
            complete: false,
        })
    }

    /// Loads a file.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read as a trace.
    pub fn open(&mut self, path: &Path) -> Result<(), SqlError> {
        let mut keep_on = |_| Continue::Yes;
        let trace = Trace::open(path, &self.import, &mut keep_on);
        let trace = trace.map_err(|error| failed(&error))?;
        let size = std::fs::metadata(path).map_or(0, |data| data.len());
        let name = format!("{} ({} MB)", path.display(), size / 1_000_000);
        self.load(trace, name)
    }

    /// Returns the memory limit in bytes; 0 for none.
    pub(super) fn memory_limit(&self) -> u64 {
        self.options.memory_limit
    }

    /// Ends queries once the variable is true. It replaces the last one.
    pub(super) fn end_with(&mut self, over: Option<Arc<AtomicBool>>) {
        self.engine.end_with(over);
    }

    /// Returns the trace.
    pub fn trace(&self) -> &Arc<Trace> {
        &self.trace
    }

    fn load(&mut self, trace: Trace, name: String) -> Result<(), SqlError> {
        let trace = Arc::new(trace);
        self.engine = session(&self.options, &trace, &self.modules)?;
        self.summarizers.clear();
        self.trace = trace;
        self.name = name;
        self.complete = true;
        Ok(())
    }

    /// Adds bytes of a trace. After a complete trace, they start another.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), SqlError> {
        if self.complete {
            self.reset()?;
        }
        let size = (self.pending.len() + bytes.len()) as u64;
        if self.options.memory_limit > 0 && size > self.options.memory_limit {
            self.pending = Vec::new();
            return Err(SqlError::new(
                "The trace is larger than the memory limit (--memory-limit).",
            ));
        }
        self.pending.extend_from_slice(bytes);
        Ok(())
    }

    /// Imports the added bytes as a trace.
    pub(super) fn finalize(&mut self) -> Result<(), SqlError> {
        if self.complete {
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.pending);
        let trace = Trace::read(&bytes[..], &self.import).map_err(|error| failed(&error))?;
        self.load(trace, format!("({} MB)", bytes.len() / 1_000_000))
    }

    /// Drops the trace.
    pub(super) fn reset(&mut self) -> Result<(), SqlError> {
        self.pending.clear();
        let trace = Trace::read(&[][..], &self.import).map_err(|error| failed(&error))?;
        self.load(trace, String::new())?;
        self.complete = false;
        Ok(())
    }

    /// Drops all definitions and keeps the trace.
    pub(super) fn restore(&mut self) -> Result<(), SqlError> {
        self.engine = session(&self.options, &self.trace, &self.modules)?;
        self.summarizers.values_mut().for_each(Summarizer::forget);
        Ok(())
    }

    /// Returns the message `StatusResult`.
    pub(super) fn status(&self) -> Vec<u8> {
        encode(|message| {
            if !self.name.is_empty() {
                message.string(status_result::LOADED_TRACE_NAME, &self.name);
            }
            let version = concat!("Ferretto ", env!("CARGO_PKG_VERSION"));
            let version = format!("{version}, compatible with {UPSTREAM_VERSION}");
            message.string(status_result::HUMAN_READABLE_VERSION, &version);
            message.varint(status_result::API_VERSION, API_VERSION);
            message.string(status_result::VERSION_CODE, UPSTREAM_VERSION);
        })
    }

    /// Runs the query of a message `QueryArgs`, and sends messages `QueryResult`. Fails if they
    /// cannot be sent.
    pub(super) fn query(
        &mut self,
        arguments: &[u8],
        send: &mut dyn FnMut(Vec<u8>) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let sql = text(arguments, query_arguments::SQL);
        self.run(&sql, ResultWriter::new(send))
    }

    /// Runs the statement of a message `StatementArgs`, and sends messages `StatementResult`. Fails
    /// if they cannot be sent.
    pub(super) fn statement(
        &mut self,
        arguments: &[u8],
        send: &mut dyn FnMut(Vec<u8>) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let sql = text(arguments, statement_arguments::SQL);
        let offset = Fields::find(statement_arguments::OFFSET, arguments);
        let offset = offset.and_then(|field| field.as_u64());
        let offset = usize::try_from(offset.unwrap_or_default()).unwrap_or(usize::MAX);
        let (head, statement) = match statement_after(&sql, offset) {
            Ok(Some((statement, next))) => (StatementHead::Run { next }, statement),
            Ok(None) => {
                let head = StatementHead::Nothing { next: sql.len() };
                return ResultWriter::for_statement(send, head).end(None);
            }
            Err(error) => {
                let writer = ResultWriter::for_statement(send, StatementHead::Unknown);
                return writer.end(Some(&error.message));
            }
        };
        self.run(statement, ResultWriter::for_statement(send, head))
    }

    fn run(&mut self, sql: &str, mut writer: ResultWriter<'_>) -> std::io::Result<()> {
        let started = self.metatrace.now();
        let result = self.engine.query(sql, &mut writer);
        self.metatrace.add("query", sql, started);
        let error = result.err().map(|error| error.render(sql));
        writer.end(error.as_deref())
    }

    /// Writes the export of a message `ExportArgs`.
    pub(super) fn export(
        &mut self,
        arguments: &[u8],
        out: &mut dyn std::io::Write,
    ) -> std::io::Result<()> {
        let started = self.metatrace.now();
        let format = export_format(arguments).map_err(|error| failed_output(&error))?;
        let done = export(&mut self.engine, &self.trace, format, out);
        self.metatrace.add("export", "", started);
        done
    }

    /// Starts the trace of the trace processor.
    pub(super) fn enable_metatrace(&mut self) {
        self.metatrace.start();
    }

    /// Returns the message `DisableAndReadMetatraceResult`.
    pub(super) fn read_metatrace(&mut self) -> Vec<u8> {
        let trace = self.metatrace.stop();
        encode(|message| match &trace {
            Some(trace) => message.bytes(metatrace_result::METATRACE, trace),
            None => message.string(
                metatrace_result::ERROR,
                "The trace of the trace processor was not enabled.",
            ),
        })
    }

    /// Adds the package of modules of a message `RegisterSqlPackageArgs`.
    pub(super) fn register_package(&mut self, arguments: &[u8]) -> Result<(), SqlError> {
        let mut modules = Vec::new();
        let mut replace = false;
        for field in Fields::new(arguments).flatten() {
            match field.number {
                package::MODULES => {
                    let bytes = field.as_bytes().unwrap_or_default();
                    let name = text(bytes, sql_module::NAME);
                    modules.push((name, text(bytes, sql_module::SQL)));
                }
                package::ALLOW_OVERRIDE => replace = field.as_bool().unwrap_or(false),
                _ => {}
            }
        }
        let is_replaced =
            |(known, _): &&(String, String)| modules.iter().any(|(name, _)| name == known);
        let kept = self.modules.iter().filter(|module| !is_replaced(module));
        self.engine.check_modules(kept.chain(&modules))?;
        for (name, sql) in modules {
            self.engine.add_module(&name, &sql, replace)?;
            self.modules.retain(|(known, _)| *known != name);
            self.modules.push((name, sql));
        }
        Ok(())
    }
}

fn failed_output(error: &SqlError) -> std::io::Error {
    std::io::Error::other(error.message.clone())
}

/// Returns the format of a message `ExportArgs`.
pub(super) fn export_format(arguments: &[u8]) -> Result<ExportFormat, SqlError> {
    let number = Fields::find(export_arguments::FORMAT, arguments).and_then(|field| field.as_u64());
    match number {
        Some(format::ARROW_TAR) => Ok(ExportFormat::Arrow),
        Some(format::SQLITE) => Ok(ExportFormat::Sqlite),
        Some(format::PERFETTO) => Err(SqlError::new(
            "The format 'perfetto' is not supported: its files are only read by the version of \
             upstream's program that wrote them. Use sqlite or arrow_tar.",
        )),
        _ => Err(SqlError::new(
            "The request has no format: use sqlite or arrow_tar.",
        )),
    }
}

/// Returns the text of a field.
pub(super) fn text(message: &[u8], number: u32) -> String {
    Fields::find(number, message)
        .and_then(|field| field.as_str_lossy())
        .map(|text| text.into_owned())
        .unwrap_or_default()
}

fn session(
    options: &Options,
    trace: &Arc<Trace>,
    modules: &[(String, String)],
) -> Result<Engine, SqlError> {
    let mut engine = Engine::new(trace, options)?;
    for (name, sql) in modules {
        engine.add_module(name, sql, true)?;
    }
    Ok(engine)
}
