//! Turns a packet in a trace buffer into one that may leave the service.
//!
//! The top level of each packet is checked ([`validate`]). Then it gets the fields that only the
//! service may write ([`Trusted`]) as one more slice at its end. Both work on the slices that the
//! buffer returns, so the bytes of a packet are copied only once, to their destination.

mod trusted;
mod validate;

pub(crate) use trusted::WRITERS_PER_USER;
pub use trusted::{SequenceIds, Trusted, TrustedFields};
pub use validate::{InvalidPacket, RESERVED_FIELDS, validate};
