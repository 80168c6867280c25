//! Names of functions of real programs, compiled by the tests.

mod cache;
mod hostile;
mod lines;
mod packages;
#[path = "../../../wire/tests/common/random.rs"]
mod random;
mod search;
mod shared;
mod support;
