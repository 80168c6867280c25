//! Integration tests, in one program.

mod common;
mod export;
mod questions;
mod server;
mod tiles;
