//! Trace files of other programs.
//!
//! Each format has one parser, in a module of its own. A parser takes bytes or lines as they arrive
//! and yields the parts of the file. [`Format::detect`] recognises a format by the first bytes of a
//! file. An interpreter for each format passes the meaning of a file on to a [`Sink`](sink::Sink).
//! [`import`] is the sink that writes packets. No input makes a parser panic or use unbounded
//! memory.

#![forbid(unsafe_code)]

pub mod collapsed;
mod detect;
pub mod json;
mod lines;
mod packets;
pub mod perf_data;
pub mod perf_text;
pub mod pprof;
pub mod simpleperf;
pub mod sink;
pub mod strace;
pub mod systrace;
mod time;

pub use detect::{Format, HEAD_BYTES, TRACE_LINE, find};
pub use lines::LineBuffer;
pub use packets::{ImportError, Losses, Options, Report, import, is_imported};
pub use time::nanoseconds;
