//! The tests of the engine.

mod command;
mod common;
mod graphs;
mod intervals;
mod modules;
mod safety;
mod server;
// The same tests as of the program for many traces.
#[path = "../../../query/tests/query/shell.rs"]
mod shell;
mod statements;
mod tables;
mod timeline;
