//! What tests of queries share.
#![allow(dead_code)]

use ferretto_query::engine::{Engine, Options};
use ferretto_query::error::SqlError;
use ferretto_query::output::{Format, write};

/// A session, and the thread that runs it.
pub struct Session {
    pub engine: Engine,
    runtime: tokio::runtime::Runtime,
}

impl Session {
    /// A session without a trace.
    pub fn new() -> Self {
        Self::with(
            Engine::new(
                &Options {
                    threads: 2,
                    ..Options::default()
                },
                None,
            )
            .expect("engine"),
        )
    }

    pub fn with(engine: Engine) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_stack_size(8 << 20)
            .enable_all()
            .build()
            .expect("runtime");
        Self { engine, runtime }
    }

    /// Runs a text and prints all results as CSV.
    pub fn csv(&mut self, sql: &str) -> Result<String, SqlError> {
        let engine = &mut self.engine;
        self.runtime.block_on(async {
            let mut out = Vec::new();
            let mut first = true;
            for statement in Engine::statements(sql)? {
                if let Some(rows) = engine.run(statement).await? {
                    if !first {
                        out.push(b'\n');
                    }
                    first = false;
                    write(rows, Format::Csv, None, &mut out).await?;
                }
            }
            Ok(String::from_utf8(out).expect("UTF-8"))
        })
    }

    /// Runs a text and returns the rows of its results without headers.
    pub fn rows(&mut self, sql: &str) -> Vec<String> {
        let csv = self
            .csv(sql)
            .unwrap_or_else(|e| panic!("{sql}: {}", e.render(sql)));
        csv.lines().skip(1).map(str::to_owned).collect()
    }

    /// Returns the one value of a query.
    pub fn value(&mut self, expression: &str) -> String {
        self.rows(&format!("SELECT {expression}")).concat()
    }

    /// Returns the message of a query that fails.
    pub fn error(&mut self, sql: &str) -> String {
        match self.csv(sql) {
            Ok(rows) => panic!("{sql} did not fail but gave {rows}"),
            Err(error) => error.render(sql),
        }
    }
}
