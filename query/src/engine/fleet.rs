//! Questions to many traces.

use std::path::Path;
use std::sync::Arc;

use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;

use super::{Engine, Options};
use crate::error::SqlError;
use crate::fleet::{Exported, Failure, Fleet, export};
use crate::sql::lexer::{text, tokenize};

/// The name of a question that is asked of each trace.
const QUESTION: &str = "__question";

impl Engine {
    /// Returns a session over many traces: definitions are made for each of them, and questions
    /// see the rows of all.
    pub fn over_fleet(options: &Options, fleet: Fleet) -> Result<Self, SqlError> {
        let mut engine = Self::for_definitions(options, fleet.template())?;
        fleet.connect(&engine.context);
        engine.fleet = Some(Arc::new(fleet));
        Ok(engine)
    }

    /// Returns the traces, if there are many.
    pub fn fleet(&self) -> Option<&Fleet> {
        self.fleet.as_deref()
    }

    /// Asks each trace alone from now on, and puts the answers together.
    pub fn ask_each_trace(&mut self, each: bool) {
        self.asks_each_trace = each;
    }

    /// Returns the traces that could not be read, wherever that was tried.
    pub async fn unreadable(&self) -> Result<Vec<Failure>, SqlError> {
        match &self.fleet {
            Some(fleet) => fleet.unreadable().await,
            None => Ok(Vec::new()),
        }
    }

    /// Makes the question a view, which each trace evaluates, and returns a question for its rows.
    pub(super) async fn each_trace(
        &mut self,
        tokens: &[TokenWithSpan],
    ) -> Result<Vec<TokenWithSpan>, SqlError> {
        let question = text(tokens);
        let view = format!("CREATE OR REPLACE PERFETTO VIEW {QUESTION} AS {question}");
        for statement in Self::statements(&view)? {
            Box::pin(self.run(statement)).await?;
        }
        tokenize(&format!("SELECT * FROM {QUESTION}"))
    }

    /// Writes tables and views of all traces as Parquet, below a folder that is not there yet.
    pub async fn export(
        &mut self,
        relations: &[String],
        target: &Path,
        threads: usize,
    ) -> Result<Exported, SqlError> {
        let Some(fleet) = self.fleet.clone() else {
            return Err(SqlError::new("what is exported are the traces of a fleet"));
        };
        let names = relations.iter().map(|r| r.to_ascii_lowercase()).collect();
        self.ensure(&names).await?;
        export(&fleet, relations, target, threads).await
    }
}
