//! Integration tests, in one program.

mod hostile;
mod memory;
mod relay;
mod upstream;
