//! Callstack samples of hand-made traces.

mod damage;
mod made;
mod output;
mod samples;
mod summary;
