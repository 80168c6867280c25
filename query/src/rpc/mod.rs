//! The protocol of upstream's trace processor: HTTP endpoints, and the same messages over
//! WebSocket, Unix sockets and standard input and output.

mod client;
mod fields;
mod http;
mod metatrace;
mod result;
mod socket;
mod state;
mod stream;
mod summaries;
mod turns;

pub use client::Client;
pub use http::{Server, ServerOptions};
pub use socket::{RunningSocket, SocketServer};
pub use state::Processor;
pub use stream::serve_stream;

/// The version of the protocol.
pub const API_VERSION: u64 = 14;

/// The version of upstream whose messages are supported.
pub const UPSTREAM_VERSION: &str = "v58.2";
