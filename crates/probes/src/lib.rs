//! System data sources: ftrace, process and system statistics.
#![forbid(unsafe_code)]

mod clock;
pub mod ftrace;
mod sink;

pub use sink::PacketSink;
