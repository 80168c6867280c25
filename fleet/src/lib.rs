//! SQL over many traces: the tables of `ferretto-tables` in DataFusion, with the behaviour of
//! SQLite and the statements and functions of Perfetto's trace processor. The prelude, the modules
//! and the reports are those of `ferretto-query`.

#![forbid(unsafe_code)]
#![warn(missing_docs, missing_debug_implementations, unreachable_pub)]

mod cells;
pub mod cluster;
mod computed;
pub mod engine;
pub mod error;
mod flamegraph;
pub mod fleet;
pub mod functions;
pub mod intervals;
mod node;
mod order;
pub mod output;
mod planner;
pub mod sql;
pub mod trace;
