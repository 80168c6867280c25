//! The tests of the engine.

mod command;
mod common;
mod graphs;
mod intervals;
mod modules;
mod python;
mod safety;
mod server;
mod shell;
mod statements;
mod tables;
mod timeline;
