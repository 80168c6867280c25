//! Integration tests, in one program.

mod changes;
mod made;
mod statistics;
