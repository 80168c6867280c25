//! Summaries of traces made by hand.

mod contents;
mod damage;
mod ending;
mod kernel;
mod losses;
mod made;
mod time;
