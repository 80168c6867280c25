//! Integration tests, in one program.

mod beside;
mod first;
mod kept;
mod layer;
mod log;
mod tasks;
