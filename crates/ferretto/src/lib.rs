//! Tracing for Rust programs, recorded by any Perfetto service.
#![forbid(unsafe_code)]
