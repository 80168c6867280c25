//! Queries over many traces.

use std::path::Path;
use std::sync::Arc;

use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;

use super::{Engine, Options};
use crate::error::SqlError;
use crate::fleet::{Exported, Failure, Fleet, export};
use crate::sql::lexer::{text, tokenize};

/// The view of a query that each trace evaluates.
const QUERY: &str = "__query";

impl Engine {
    /// Returns a session over many traces. Definitions are evaluated for each trace, and queries
    /// read the rows of all.
    pub fn over_fleet(options: &Options, fleet: Fleet) -> Result<Self, SqlError> {
        let mut engine = Self::for_definitions(options, fleet.template())?;
        fleet.connect(&engine.context);
        engine.fleet = Some(Arc::new(fleet));
        Ok(engine)
    }

    /// Returns the traces of a session over many.
    pub fn fleet(&self) -> Option<&Fleet> {
        self.fleet.as_deref()
    }

    /// Sets if each trace is queried alone; the result then has the rows of all.
    pub fn query_each_trace(&mut self, each: bool) {
        self.queries_each_trace = each;
    }

    /// Returns the traces that could not be read, by this process or by executors.
    pub async fn unreadable(&self) -> Result<Vec<Failure>, SqlError> {
        match &self.fleet {
            Some(fleet) => fleet.unreadable().await,
            None => Ok(Vec::new()),
        }
    }

    /// Defines a query as a view, which each trace evaluates, and returns a query for its rows.
    pub(super) async fn each_trace(
        &mut self,
        tokens: &[TokenWithSpan],
    ) -> Result<Vec<TokenWithSpan>, SqlError> {
        let query = text(tokens);
        let view = format!("CREATE OR REPLACE PERFETTO VIEW {QUERY} AS {query}");
        for statement in Self::statements(&view)? {
            Box::pin(self.run(statement)).await?;
        }
        tokenize(&format!("SELECT * FROM {QUERY}"))
    }

    /// Writes tables and views of all traces as Parquet, below a new folder.
    pub async fn export(
        &mut self,
        relations: &[String],
        target: &Path,
        threads: usize,
    ) -> Result<Exported, SqlError> {
        let Some(fleet) = self.fleet.clone() else {
            return Err(SqlError::new("only sessions over many traces can export"));
        };
        let names = relations.iter().map(|r| r.to_ascii_lowercase()).collect();
        self.ensure(&names).await?;
        export(&fleet, relations, target, threads).await
    }
}
