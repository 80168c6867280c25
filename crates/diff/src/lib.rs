//! Compares traces: a ranked list of what changed, with the size of each change and its confidence.
//!
//! - [`Recording`] has the features of one trace: numbers such as the time of a function on CPUs,
//!   each with a [`Feature`] that means the same in other recordings. The trace itself is no longer
//!   needed.
//! - [`Comparison`] compares two sets of recordings, and ranks the features that changed.
//! - [`rules`] are bounds of the values of a recording, for gates.
//! - [`statistics`] are the tests that tell changes from chance.
#![forbid(unsafe_code)]

mod calls;
mod change;
mod compare;
mod context;
mod counters;
mod cpu;
mod disks;
mod feature;
mod heap;
mod neighbours;
mod options;
mod pair;
mod path;
mod recording;
mod remarks;
mod resources;
pub mod rules;
mod setup;
mod slices;
mod specific;
pub mod statistics;
mod threads;
mod toml;
mod values;
mod variation;

pub use change::Change;
pub use compare::{Comparison, Limits};
pub use feature::{Feature, Kind, Unit};
pub use recording::{Recording, Scope, TABLES};
