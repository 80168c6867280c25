//! Trace files of other programs, taken apart.
//!
//! Each format has one parser, in a module of its own. It is given bytes as they come, or lines,
//! and hands out what they say; what becomes of that is up to its user. Files are told apart by
//! their first bytes ([`Format::detect`]). Any bytes may come: nothing panics, and what is kept is
//! bounded.

pub mod collapsed;
mod detect;
pub mod json;
mod lines;
pub mod perf_data;
pub mod perf_text;
pub mod pprof;
pub mod strace;

pub use detect::{Format, HEAD_BYTES, TRACE_LINE, find};
pub use lines::LineBuffer;
