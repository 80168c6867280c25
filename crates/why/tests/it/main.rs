//! Integration tests, in one program.

mod missing;
mod partition;
