//! Making traces of others.
//!
//! - [`cut`]: the part of a trace between two times.
//! - [`Splitter`]: parts of a trace one after the other, also while it is recorded.
//! - [`merge`]: several traces in one; [`MachineMerger`] for those of machines whose clocks were
//!   compared.
//!
//! A part opens alone: it begins with all that earlier packets say for those in it.
#![forbid(unsafe_code)]

mod bundle;
mod cut;
mod kinds;
mod machines;
mod merge;
mod names;
mod packet;
mod split;
mod state;
mod write;

pub use cut::{Window, cut, extent};
pub use machines::{Machine, MachineMerger, Readings};
pub use merge::merge;
pub use split::{Every, Splitter};
pub use write::{EditError, Taken};
