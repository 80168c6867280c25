//! Integration tests, in one program.

mod changes;
mod features;
mod judgements;
mod made;
mod real;
mod statistics;
