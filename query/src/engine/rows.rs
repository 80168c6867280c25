//! Receivers of results.

use std::ops::ControlFlow;

use rusqlite::types::ValueRef;

/// The statements of a text.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Statements {
    /// Their number.
    pub count: u64,
    /// The number of those with columns.
    pub with_output: u64,
    /// The text of the last one.
    pub last: String,
}

/// A receiver of results.
pub trait Rows {
    /// Begins the result of a statement with these columns.
    fn columns(&mut self, names: &[String]) -> ControlFlow<()> {
        let _ = names;
        ControlFlow::Continue(())
    }

    /// Begins the last statement of [`Engine::query`](super::Engine::query), which may have no
    /// columns.
    fn last(&mut self, names: &[String], statements: &Statements) {
        let _ = (names, statements);
    }

    /// Adds a row.
    fn row(&mut self, values: &[ValueRef<'_>]) -> ControlFlow<()>;
}
