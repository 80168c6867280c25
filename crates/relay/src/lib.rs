//! Forwards the producers of one machine to the tracing service of another.
//!
//! # Guarantees
//!
//! * Each connection to the host begins with the identity of the producer's process, followed by
//!   exactly the producer's bytes.
//! * A side that does not read holds up only its other side. The relay buffers 128 KiB for each
//!   direction of each producer. It delivers the bytes taken from a producer before it closes the
//!   connection to the host.
//! * If the host is gone, the relay tries to connect from time to time, and at once when a producer
//!   connects.
//!
//! # Main types
//!
//! [`Relay`] listens and forwards as [`RelayOptions`] say; [`Stopper`] ends it.
//! [`traced_relay::run`] is the whole daemon.
#![forbid(unsafe_code)]

mod dial;
mod end;
mod flow;
mod notice;
mod options;
mod own;
mod pair;
mod poller;
mod relay;
mod share;
pub mod traced_relay;

pub use notice::{Notice, NoticeSink};
pub use options::RelayOptions;
pub use relay::{Relay, RelayError, Stopper};
