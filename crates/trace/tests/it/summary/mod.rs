//! Tests of summaries.

mod activity;
mod contents;
mod damage;
mod ending;
mod groups;
mod kernel;
mod losses;
mod made;
mod time;
