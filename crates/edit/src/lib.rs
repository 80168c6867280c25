//! Making traces of others.
#![forbid(unsafe_code)]

mod machines;
mod packet;

pub use machines::{Machine, MachineMerger, MergeError, Readings, Taken};
