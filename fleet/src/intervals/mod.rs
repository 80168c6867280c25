//! Joins of intervals and of times, as operators over inputs sorted by key and time. They use no
//! nested loops.

mod exec;
pub mod sweep;
mod table;

pub use exec::SpanKind;
pub use table::{IntervalPlanner, span_table};
pub(crate) use table::{IntervalTable, OPERATORS};
