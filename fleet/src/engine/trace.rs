//! The engine's interface to a trace.

use datafusion::prelude::SessionContext;

use crate::error::SqlError;

/// The engine's interface to a trace.
pub trait Trace: Send + Sync {
    /// Adds the tables and the functions that read the trace to the session.
    fn register(&self, context: &SessionContext) -> Result<(), SqlError>;
    /// Returns the number of rows of all tables.
    fn rows(&self) -> usize {
        usize::MAX
    }
}
