//! SQL over one trace: the tables of `ferretto-tables` in SQLite, with PerfettoSQL's statements.
//!
//! - [`Engine`] is a session over a trace.
//! - [`Rows`] receives the results.
//! - [`SqlError`] has the place of an error in the text.
#![deny(unsafe_code)]

mod engine;
mod error;
mod functions;
mod graphs;
mod intervals;
mod limits;
mod objects;
pub mod output;
mod relations;
mod sqlite;
// The same modules as in the engine for many traces.
#[allow(unreachable_pub)]
#[path = "../../query/src/stdlib/mod.rs"]
mod stdlib;
mod syntax;
mod timeline;

pub use engine::{Engine, Interrupt, Options, Rows};
pub use error::SqlError;
pub use rusqlite::types::ValueRef;
