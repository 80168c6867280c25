//! Parsers of the trace files of other programs.
//!
//! Each format has one parser, in a module of its own. A parser takes bytes or lines as they arrive
//! and yields the parts of the file. [`Format::detect`] recognises a format by the first bytes of a
//! file. No input makes a parser panic or use unbounded memory.

pub mod collapsed;
mod detect;
pub mod json;
mod lines;
pub mod perf_data;
pub mod perf_text;
pub mod pprof;
pub mod strace;
mod time;

pub use detect::{Format, HEAD_BYTES, TRACE_LINE, find};
pub use lines::LineBuffer;
pub use time::nanoseconds;
