//! Integration tests, in one program.

mod common;
mod export;
mod pivot;
mod questions;
mod server;
mod tiles;
