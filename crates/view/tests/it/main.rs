//! Integration tests, in one program.

mod cache;
mod common;
mod export;
mod pivot;
mod questions;
mod server;
mod tiles;
