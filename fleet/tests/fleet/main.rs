//! The tests of queries. They are one program, since each program that links the engine has
//! hundreds of megabytes.

mod android;
mod cluster;
mod command;
mod common;
mod dialect;
mod flamegraph;
mod fleet;
mod foreign;
mod hostile;
mod intervals;
mod modules;
mod objects;
mod profiles;
mod recursion;
mod tables;
mod trace;
