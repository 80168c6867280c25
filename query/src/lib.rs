//! SQL over one trace: the tables of `ferretto-tables` in SQLite, with PerfettoSQL's statements.
//!
//! - [`Engine`] is a session over a trace.
//! - [`Rows`] receives the results.
//! - [`SqlError`] has the place of an error in the text.
#![deny(unsafe_code)]

pub mod clock;
pub mod convert;
mod engine;
mod error;
pub mod event_text;
pub mod export;
pub mod flamegraph;
mod functions;
mod graphs;
mod intervals;
mod limits;
pub mod links;
mod modules;
mod objects;
pub mod output;
mod relations;
pub mod reports;
pub mod rpc;
mod sqlite;
pub mod stdlib;
pub mod summary;
mod syntax;
mod timeline;

pub use engine::{Engine, Interrupt, Options, Rows, STACK, Statements};
pub use error::SqlError;
pub use modules::names as module_names;
pub use relations::{COMPUTED, computed};
pub use rusqlite::types::ValueRef;
