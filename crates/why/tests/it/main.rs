//! Integration tests, in one program.

mod partition;
