//! Reading trace files: packets, events, callstacks and summaries.
//!
//! The main parts:
//!
//! - [`TraceReader`] streams the packets of a trace from any reader. It unpacks compressed packets
//!   and whole files, stays within its [`Limits`], and reports a truncated file instead of failing.
//! - [`Summary`], made by [`summarize`] in one pass: events by source, CPU time by process,
//!   counters, and losses with the settings that would have avoided them.
//! - [`profile`] decodes callstack samples, and writes them as folded stacks and for pprof.
//! - [`lines`] prints one line for each event.
//! - [`Bounds`] are the times of the first and the last event: the zero of all relative times.
//! - [`HealthReader`] counts the data that readers cannot show.
//! - [`events`] decodes track events, and reports their problems.
//!
//! Files are not trusted: no input causes a panic or unbounded memory use.
#![forbid(unsafe_code)]

mod bounds;
pub mod events;
mod health;
mod limits;
pub mod lines;
mod printable;
mod problems;
pub mod profile;
mod reader;
pub mod summary;
mod threads;
mod walk;

pub use bounds::{Bounds, BoundsReader};
pub use health::HealthReader;
pub use limits::{Limits, MAX_PACKET_BYTES};
pub use problems::Problems;
pub use reader::{Compression, Damage, Packet, ReadError, TraceReader, Truncated, Unpacking};
pub use summary::{Summarizer, Summary, summarize, summarize_and_complete, summarize_within};
