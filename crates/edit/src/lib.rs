//! Cutting, splitting and merging of traces.
//!
//! - [`cut`] writes the part of a trace between two times.
//! - [`Splitter`] divides a trace into consecutive parts, also while it is recorded.
//! - [`merge`] merges several traces into one; [`MachineMerger`] does so for machines whose clocks
//!   were compared.
//!
//! A part can be opened on its own: it begins with the state that its packets need from earlier
//! ones.
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
