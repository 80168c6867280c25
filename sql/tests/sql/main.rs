//! The tests of the engine.

mod common;
mod graphs;
mod modules;
mod safety;
mod statements;
mod tables;
mod timeline;
