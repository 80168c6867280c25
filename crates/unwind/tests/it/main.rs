//! Integration tests, in one program.

mod arm64;
mod hostile;
mod jit;
mod pointers;
mod programs;
mod target;
