//! Tests of summaries.

mod contents;
mod damage;
mod ending;
mod groups;
mod kernel;
mod losses;
mod made;
mod time;
