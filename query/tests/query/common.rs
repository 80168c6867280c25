//! A session over a trace in text format.

use std::process::{Command, Stdio};
use std::sync::Arc;

use ferretto_query::output::Csv;
use ferretto_query::{Engine, Options, SqlError};
use ferretto_tables::Trace;

/// Two threads, nested slices, a flow, arguments and a counter.
pub(crate) const TRACE: &str = include_str!("trace.textproto");

/// The path of the program.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_ferretto-query");

/// Returns the program as a command without input.
pub(crate) fn query() -> Command {
    let mut command = Command::new(PROGRAM);
    command.stdin(Stdio::null());
    command
}

/// Encodes a trace in text format.
pub(crate) fn encode(text: &str) -> Vec<u8> {
    use ferretto_text::config::{Unknown, read_message};
    let read = read_message(
        "perfetto.protos.Trace",
        "trace",
        text.as_bytes(),
        Unknown::Refuse,
    );
    match read.expect("the schema has traces") {
        Ok(parsed) => parsed.bytes,
        Err(error) => panic!("{error:?}"),
    }
}

/// Encodes and imports a trace in text format.
pub(crate) fn import(text: &str) -> Arc<Trace> {
    let bytes = encode(text);
    let trace = Trace::read(&bytes[..], &ferretto_tables::Options::default());
    Arc::new(trace.expect("a trace"))
}

/// A session.
pub(crate) struct Session(pub(crate) Engine);

impl Session {
    pub(crate) fn new() -> Self {
        Self::with(&Options::default())
    }

    pub(crate) fn with(options: &Options) -> Self {
        Self(Engine::new(&import(TRACE), options).expect("engine"))
    }

    /// Returns a session over a trace.
    pub(crate) fn of(trace: &Arc<Trace>) -> Self {
        Self(Engine::new(trace, &Options::default()).expect("engine"))
    }

    /// Adds a module.
    pub(crate) fn add_module(&mut self, name: &str, sql: &str) {
        self.0.add_module(name, sql, false).expect("a module");
    }

    /// Returns the names of all tables and views.
    pub(crate) fn table_names(&mut self) -> Vec<String> {
        let names = self.rows(
            "SELECT name FROM sqlite_schema
             WHERE type IN ('table', 'view') AND sql NOT LIKE '%USING __perfetto%'",
        );
        let names = names.iter().map(|name| name.trim_matches('"').to_owned());
        names.collect()
    }

    /// Runs SQL and returns all results as CSV.
    pub(crate) fn csv(&mut self, sql: &str) -> Result<String, SqlError> {
        let mut rows = Csv::new(Vec::new());
        self.0.run(sql, &mut rows)?;
        Ok(String::from_utf8(rows.finish().expect("written")).expect("UTF-8"))
    }

    /// Runs SQL and returns the rows of its result without the header.
    pub(crate) fn rows(&mut self, sql: &str) -> Vec<String> {
        let csv = self
            .csv(sql)
            .unwrap_or_else(|error| panic!("{sql}: {}", error.render(sql)));
        csv.lines().skip(1).map(str::to_owned).collect()
    }

    /// Returns the value of an expression.
    pub(crate) fn value(&mut self, expression: &str) -> String {
        self.rows(&format!("SELECT {expression}")).concat()
    }

    /// Returns the error of a query that fails.
    pub(crate) fn error(&mut self, sql: &str) -> String {
        match self.csv(sql) {
            Ok(rows) => panic!("{sql} did not fail but gave {rows}"),
            Err(error) => error.render(sql),
        }
    }
}

/// Returns a session over a trace in text format.
pub(crate) fn over(text: &str) -> Session {
    Session::of(&import(text))
}

/// A random number generator.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    pub(crate) fn of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len() as u64) as usize]
    }
}
