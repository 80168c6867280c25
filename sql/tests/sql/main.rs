//! The tests of the engine.

mod common;
mod modules;
mod safety;
mod statements;
mod tables;
