//! The state of a trace processor: the trace, and the session over it.

use std::path::Path;
use std::time::Instant;

use ferretto_wire::{Fields, encode};
use futures::StreamExt;
use tokio::runtime::Runtime;

use super::result::{ResultWriter, Statements, gone};
use super::{API_VERSION, UPSTREAM_VERSION};
use crate::engine::{Engine, Options, Rows, STACK};
use crate::error::SqlError;
use crate::sql::lexer::text;
use crate::trace::LoadedTrace;

/// A trace processor, used by one client at a time.
#[derive(Debug)]
pub struct Processor {
    runtime: Runtime,
    options: Options,
    import: ferretto_tables::Options,
    modules: Vec<(String, String)>,
    trace: LoadedTrace,
    engine: Engine,
    name: String,
    /// The received bytes of an incomplete trace.
    pending: Vec<u8>,
    complete: bool,
}

impl Processor {
    /// Returns a processor without a trace.
    pub fn new(
        options: Options,
        import: ferretto_tables::Options,
        modules: Vec<(String, String)>,
    ) -> Result<Self, SqlError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .thread_stack_size(STACK)
            .build()
            .map_err(|e| SqlError::new(format!("cannot start threads: {e}")))?;
        let trace = LoadedTrace::read(&[], &import)?;
        let engine = session(&options, &trace, &modules)?;
        Ok(Self {
            runtime,
            options,
            import,
            modules,
            trace,
            engine,
            name: String::new(),
            pending: Vec::new(),
            complete: false,
        })
    }

    /// Loads a file.
    pub fn open(&mut self, path: &Path) -> Result<(), SqlError> {
        let trace = LoadedTrace::open(path, &self.import, |_| ferretto_tables::Continue::Yes)?;
        let size = std::fs::metadata(path).map_or(0, |data| data.len());
        self.load(
            trace,
            format!("{} ({} MB)", path.display(), size / 1_000_000),
        )
    }

    /// Returns the trace.
    pub fn trace(&self) -> &LoadedTrace {
        &self.trace
    }

    fn load(&mut self, trace: LoadedTrace, name: String) -> Result<(), SqlError> {
        self.engine = session(&self.options, &trace, &self.modules)?;
        self.trace = trace;
        self.name = name;
        self.complete = true;
        Ok(())
    }

    /// Adds bytes of a trace. After a complete trace, they start another.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), SqlError> {
        if self.complete {
            self.reset()?;
        }
        self.pending.extend_from_slice(bytes);
        Ok(())
    }

    /// Imports the added bytes as a trace.
    pub fn finalize(&mut self) -> Result<(), SqlError> {
        if self.complete {
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.pending);
        let trace = LoadedTrace::read(&bytes, &self.import)?;
        self.load(trace, format!("({} MB)", bytes.len() / 1_000_000))
    }

    /// Drops the trace.
    pub fn reset(&mut self) -> Result<(), SqlError> {
        self.pending.clear();
        let trace = LoadedTrace::read(&[], &self.import)?;
        self.load(trace, String::new())?;
        self.complete = false;
        Ok(())
    }

    /// Drops all definitions and keeps the trace.
    pub fn restore(&mut self) -> Result<(), SqlError> {
        self.engine = session(&self.options, &self.trace, &self.modules)?;
        Ok(())
    }

    /// Returns the message `StatusResult`.
    pub fn status(&self) -> Vec<u8> {
        encode(|message| {
            if !self.name.is_empty() {
                message.string(1, &self.name);
            }
            let version = concat!("Ferretto ", env!("CARGO_PKG_VERSION"));
            message.string(2, &format!("{version}, compatible with {UPSTREAM_VERSION}"));
            message.varint(3, API_VERSION);
            message.string(4, UPSTREAM_VERSION);
        })
    }

    /// Runs the query of a message `QueryArgs`, and sends messages `QueryResult`.
    pub fn query(
        &mut self,
        arguments: &[u8],
        send: &mut dyn FnMut(Vec<u8>) -> std::io::Result<()>,
    ) -> Result<(), SqlError> {
        let sql = Fields::find(1, arguments)
            .and_then(|field| field.as_str_lossy())
            .map(|text| text.into_owned())
            .unwrap_or_default();
        let mut writer = ResultWriter::new(Instant::now());
        let result = self
            .runtime
            .block_on(run(&mut self.engine, &sql, &mut writer, send));
        let error = result.err().map(|error| error.render(&sql));
        send(writer.end(error.as_deref())).map_err(gone)
    }

    /// Adds the package of modules of a message `RegisterSqlPackageArgs`.
    pub fn register_package(&mut self, arguments: &[u8]) -> Result<(), SqlError> {
        let mut package = String::new();
        let mut modules = Vec::new();
        let mut replace = false;
        for field in Fields::new(arguments).flatten() {
            match field.number {
                1 => package = field.as_str_lossy().unwrap_or_default().into_owned(),
                2 => {
                    let bytes = field.as_bytes().unwrap_or_default();
                    let part = |number| {
                        Fields::find(number, bytes)
                            .and_then(|f| f.as_str_lossy())
                            .map(|t| t.into_owned())
                            .unwrap_or_default()
                    };
                    modules.push((part(1), part(2)));
                }
                3 => replace = field.as_bool().unwrap_or(false),
                _ => {}
            }
        }
        let _ = package;
        for (name, sql) in modules {
            self.engine.add_module(&name, &sql, replace)?;
            self.modules.retain(|(known, _)| *known != name);
            self.modules.push((name, sql));
        }
        Ok(())
    }
}

fn session(
    options: &Options,
    trace: &LoadedTrace,
    modules: &[(String, String)],
) -> Result<Engine, SqlError> {
    let mut engine = Engine::new(options, Some(trace))?;
    for (name, sql) in modules {
        engine.add_module(name, sql, true)?;
    }
    Ok(engine)
}

async fn run(
    engine: &mut Engine,
    sql: &str,
    writer: &mut ResultWriter,
    send: &mut dyn FnMut(Vec<u8>) -> std::io::Result<()>,
) -> Result<(), SqlError> {
    let mut statements = Statements::default();
    let mut last: Option<Rows> = None;
    for statement in Engine::statements(sql)? {
        // The rows of all but the last statement are computed and dropped.
        if let Some(mut rows) = last.take() {
            while let Some(batch) = rows.stream.next().await {
                batch?;
            }
        }
        statements.count += 1;
        statements.last = text(&statement).trim().to_owned();
        last = engine.run(statement).await?;
        statements.with_output += u64::from(last.is_some());
    }
    let names = last
        .as_ref()
        .map(|rows| rows.names.clone())
        .unwrap_or_default();
    writer.begin(&names, &statements);
    let Some(mut rows) = last else { return Ok(()) };
    while let Some(batch) = rows.stream.next().await {
        writer.rows(&batch?, send)?;
    }
    Ok(())
}
