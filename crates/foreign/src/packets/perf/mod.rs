//! Converts files of `perf record` and the output of `perf script` to callstack samples.

mod data;
mod files;
mod maps;
mod samples;
mod stacks;
mod tasks;
mod text;

pub(crate) use data::data;
pub(crate) use samples::{EventSpec, Head, Samples, Unit};
pub(crate) use text::text;
