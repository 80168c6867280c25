//! Names of the functions of real programs, compiled here.

mod cache;
mod hostile;
mod lines;
mod packages;
mod search;
mod shared;
mod support;
