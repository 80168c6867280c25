//! SQL over one trace: the tables of `ferretto-tables` in SQLite, with PerfettoSQL's statements.
//!
//! - [`Engine`] is a session over a trace.
//! - [`Rows`] receives the results.
//! - [`SqlError`] has the place of an error in the text.
#![deny(unsafe_code)]

// Public to the transports that another package shares.
pub(crate) mod engine;
pub(crate) mod error;
mod functions;
mod graphs;
mod intervals;
mod limits;
mod modules;
mod objects;
pub mod output;
mod relations;
pub mod rpc;
mod sqlite;
// The same modules as in the engine for many traces.
#[allow(unreachable_pub)]
#[path = "../../query/src/stdlib/mod.rs"]
mod stdlib;
mod syntax;
mod timeline;

pub use engine::{Engine, Interrupt, Options, Rows, STACK, Statements};
pub use error::SqlError;
pub use rusqlite::types::ValueRef;
