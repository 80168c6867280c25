//! The tracing service on real sockets, files and clocks.
#![forbid(unsafe_code)]
