//! Integration tests, in one program.

mod explained;
mod missing;
mod partition;
