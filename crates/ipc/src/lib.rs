//! Frames, RPC tables, descriptor passing and addresses of the tracing sockets.
//!
//! # What it promises
//!
//! * Byte for byte upstream's protocol, in both directions and towards older
//!   and newer peers: methods are looked up by name.
//! * No input from a peer makes it panic, block, or hold more memory than one frame. Sending never
//!   blocks; bytes that a peer does not read are held up to a limit, beyond which the connection is
//!   given up.
//! * A descriptor stays with the frame it was sent with, and is closed where that may take time.
//!
//! # Types to know
//!
//! [`host::Connection`] is the service's side of one connection, and
//! [`client::Connection`] the other side. The former is free of I/O; the
//! latter drives a [`socket::Socket`]. Requests and replies are the enums in
//! [`port`], for example [`port::producer::Request`].
//!
//! Sockets are found through [`address::Address`] and the names in [`names`].
#![forbid(unsafe_code)]

pub mod address;
pub mod client;
pub mod frame;
pub mod host;
pub mod machine;
pub mod names;
mod passed;
pub mod port;
pub mod socket;

pub use address::Address;
pub use passed::{CloseHere, Disposal, PassedFd};
