//! Integration tests, in one program.

mod events;
mod lines;
mod memory;
mod profile;
mod reader;
mod summary;
