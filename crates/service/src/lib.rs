//! The tracing service as a deterministic state machine, with its trace buffers.
#![forbid(unsafe_code)]
