//! Frames, RPC tables, descriptor passing and addresses of the tracing sockets.
#![forbid(unsafe_code)]

pub mod address;
pub mod frame;
pub mod names;
pub mod port;
