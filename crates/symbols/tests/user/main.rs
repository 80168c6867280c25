//! Names of functions of real programs, compiled by the tests.

mod cache;
mod debuginfod;
mod hostile;
mod lines;
mod packages;
mod search;
mod shared;
mod support;
