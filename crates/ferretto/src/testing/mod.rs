//! Tools for tests of traced events.
//!
//! [`capture`] records the events of a closure, and returns a [`Trace`], a tree of slices, instants
//! and counters. Its printed form contains no times and ids, and so is always the same:
//!
//! ```
//! let trace = ferretto::testing::capture(|| {
//!     let _slice = ferretto::slice!("app", "work", items = 3);
//!     ferretto::counter!("app", "load", 0.5);
//! });
//! // The first line names the thread.
//! let text = trace.to_string();
//! assert!(text.ends_with("\n  app work (items:3)\nprocess / counter load\n  0.5\n"), "{text}");
//! ```

#[cfg(feature = "in-process")]
mod capture;
mod node;
mod print;
mod trace;

#[cfg(feature = "in-process")]
pub use capture::{Capture, capture};
pub use node::{Node, NodeKind};
pub use trace::{Timeline, Trace};

pub use crate::decode::{CounterValue, Track, TrackKind, Value};
