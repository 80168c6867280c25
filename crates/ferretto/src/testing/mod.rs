//! What was traced, for tests.
//!
//! [`Trace`] reads a recording of this library back into a tree of slices, moments and counters. Printed, it has no times
//! and numbers of threads, and so is the same each time:
//!
//! ```
//! # let recorded: &[u8] = &[];
//! use ferretto::testing::Trace;
//!
//! let trace = Trace::read(recorded);
//! assert_eq!(trace.to_string(), "");
//! ```

mod node;
mod print;
mod trace;

pub use node::{Node, NodeKind};
pub use trace::{Timeline, Trace};

pub use crate::decode::{CounterValue, Track, TrackKind, Value};
