//! Frames, RPC tables, descriptor passing and addresses of the tracing sockets.
#![forbid(unsafe_code)]
