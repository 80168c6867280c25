//! The tests of this crate, in one program.
#![cfg(test)]

mod bodies;
mod common;
mod connections;
mod sessions;
