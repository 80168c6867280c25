//! Names of the functions of real programs, compiled here.

mod lines;
mod search;
mod support;
