//! Joins of intervals and of times: real operators, sorted by key and time, never nested loops.

mod exec;
pub mod sweep;
mod table;

pub use exec::SpanKind;
pub use table::{IntervalPlanner, span_table};
pub(crate) use table::{IntervalTable, OPERATORS};
