//! Brings the producers of one machine to the tracing service of another.
//!
//! # What it promises
//!
//! * Each connection to the host begins with the identity of the producer's process; exactly the
//!   producer's bytes follow.
//! * A side that does not read holds up the other, and nobody else; 128 KiB are held for each
//!   direction of each producer. Bytes taken from a producer are delivered before its connection to
//!   the host ends.
//! * A host that is gone costs nothing but an attempt now and then, and one at once when a producer
//!   comes.
//!
//! # Types to know
//!
//! [`Relay`] listens and forwards; [`RelayOptions`] says where, and [`Stopper`] ends it.
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
