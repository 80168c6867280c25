//! The program: runs SQL over a trace, and prints the results.

use std::ffi::OsString;
use std::io::{BufWriter, Write, stdout};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use ferretto_sql::output::Csv;
use ferretto_sql::{Engine, Options};
use ferretto_tables::{Continue, Trace};

const USAGE: &str = "Usage: ferretto-sql [--memory-limit BYTES] [--timeout MS] TRACE SQL";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ferretto-sql: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    use lexopt::prelude::*;
    let mut options = Options::default();
    let mut words: Vec<OsString> = Vec::new();
    let mut parser = lexopt::Parser::from_env();
    let failed = |error: lexopt::Error| format!("{error}\n{USAGE}");
    while let Some(argument) = parser.next().map_err(failed)? {
        match argument {
            Long("memory-limit") => {
                options.memory_limit = parser.value().and_then(|v| v.parse()).map_err(failed)?;
            }
            Long("timeout") => {
                options.timeout_ms = parser.value().and_then(|v| v.parse()).map_err(failed)?;
            }
            Long("help") => {
                println!("{USAGE}");
                return Ok(());
            }
            Value(word) => words.push(word),
            other => return Err(failed(other.unexpected())),
        }
    }
    let [file, sql] = words.as_slice() else {
        return Err(format!("a trace and a query are needed\n{USAGE}"));
    };
    let sql = sql.to_str().ok_or("the query is not UTF-8")?;
    let mut keep_on = |_| Continue::Yes;
    let trace = Trace::open(
        Path::new(file),
        &ferretto_tables::Options::default(),
        &mut keep_on,
    )
    .map_err(|error| error.to_string())?;
    let mut engine = Engine::new(&Arc::new(trace), &options).map_err(|error| error.to_string())?;
    let mut rows = Csv::new(BufWriter::new(stdout().lock()));
    let result = engine.run(sql, &mut rows);
    let mut out = rows
        .finish()
        .map_err(|error| format!("the result cannot be written: {error}"))?;
    out.flush()
        .map_err(|error| format!("the result cannot be written: {error}"))?;
    result.map_err(|error| error.render(sql))
}
