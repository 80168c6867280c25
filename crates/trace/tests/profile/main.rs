//! Callstack samples of hand-made traces.

mod damage;
mod heap;
mod made;
mod output;
mod samples;
mod summary;
