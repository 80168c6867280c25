//! The tests of the engine.

mod android;
mod command;
mod common;
mod computed;
mod dialect;
mod export;
mod flamegraph;
mod graphs;
mod hostile;
mod intervals;
mod modules;
mod outputs;
mod profiles;
mod python;
mod random;
mod recursion;
mod safety;
mod server;
mod shell;
mod statements;
mod stored;
mod summary;
mod tables;
mod timeline;
mod trace;
mod why;
