//! From a packet in a trace buffer to one that may leave the service.
//!
//! Each packet is checked at its top level ([`validate`]), then gets the fields only the service
//! may write ([`Trusted`]) as one slice more behind its own. Both work on the slices the buffer
//! returns, so the bytes of a packet are copied once: from the buffer to where they go.

mod trusted;
mod validate;

pub(crate) use trusted::WRITERS_PER_USER;
pub use trusted::{SequenceIds, Trusted, TrustedFields};
pub use validate::{InvalidPacket, RESERVED_FIELDS, validate};
