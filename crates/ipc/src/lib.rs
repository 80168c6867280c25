//! Frames, RPC tables, descriptor passing and addresses of the tracing sockets.
//!
//! # Guarantees
//!
//! * The protocol is upstream's byte for byte, in both directions, and works with older and newer
//!   peers: methods are looked up by name.
//! * No input from a peer makes it panic, block, or use more memory than one frame. Sending never
//!   blocks: bytes that a peer does not read are buffered up to a limit, beyond which the
//!   connection is closed.
//! * A descriptor stays with its frame, and is closed where blocking is allowed.
//!
//! # Main types
//!
//! [`host::Connection`] is the service's side of a connection, and [`client::Connection`] the
//! client's. The former does no input or output; the latter uses a [`socket::Socket`]. Requests and
//! replies are the enums in [`port`], for example [`port::producer::Request`].
//!
//! Sockets are found by an [`address::Address`], and the names in [`names`].
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
