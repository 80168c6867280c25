//! Tests of callstack samples.

mod damage;
mod heap;
mod made;
mod output;
#[path = "../../../wire/tests/common/random.rs"]
mod random;
mod samples;
mod summary;
