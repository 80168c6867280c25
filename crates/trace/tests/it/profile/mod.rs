//! Tests of callstack samples.

mod damage;
mod heap;
mod made;
mod output;
mod samples;
mod summary;
