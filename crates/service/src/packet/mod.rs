//! From a packet in a trace buffer to one that may leave the service.
//!
//! Each packet is checked at its top level, then gets the fields only the service may write. Both
//! work on the slices the buffer returns, so the bytes of a packet are copied once: from the
//! buffer to where they go.

mod trusted;
mod validate;

pub use trusted::{SequenceIds, Trusted, TrustedFields};
pub use validate::{InvalidPacket, RESERVED_FIELDS, Validator, validate};

use crate::buffer::Packet;

/// Tag of `Trace.packet`, which stands before each packet of a trace file.
const FILE_TAG: u8 = 0x0a;

/// Checks a packet and appends it to `file` as it stands in a trace file: tag, length, the
/// producer's bytes, the service's fields.
///
/// # Errors
/// If the packet is not to be passed on; `file` is then unchanged.
pub fn append_to_file(
    file: &mut Vec<u8>,
    packet: &Packet<'_>,
    sequences: &mut SequenceIds,
) -> Result<(), InvalidPacket> {
    validate(packet.fragments())?;
    let trusted = sequences.trusted(packet).encode();
    let trusted = trusted.as_bytes();
    let len = packet.len() + trusted.len();
    file.reserve(len + 11);
    file.push(FILE_TAG);
    let mut rest = len;
    while rest >= 0x80 {
        file.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    file.push(rest as u8);
    packet
        .fragments()
        .for_each(|fragment| file.extend_from_slice(fragment));
    file.extend_from_slice(trusted);
    Ok(())
}
