//! Integration tests, in one program.

mod changes;
mod judgements;
mod made;
mod real;

mod statistics;
