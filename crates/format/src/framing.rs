//! The framing of a trace file: a sequence of packets, each a field of the message `Trace`.

use ferretto_wire::{MAX_VARINT_LENGTH, encode_varint};

/// The byte before the length of each packet: field 1, length-delimited.
pub const PACKET_TAG: u8 = 0x0a;

/// The largest size of a packet in a trace file, in bytes.
pub const MAX_PACKET_SIZE: usize = (1 << 28) - 1;

/// The bytes before a packet in a trace file: [`PACKET_TAG`] and its length.
///
/// ```
/// use ferretto_format::Preamble;
///
/// assert_eq!(Preamble::new(200).as_bytes(), [0x0a, 0xc8, 0x01]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Preamble {
    bytes: [u8; 1 + MAX_VARINT_LENGTH],
    length: usize,
}

impl Preamble {
    /// Creates the preamble of a packet of `length` bytes.
    pub fn new(length: usize) -> Self {
        let mut varint = [0; MAX_VARINT_LENGTH];
        let digits = encode_varint(length as u64, &mut varint);
        let mut bytes = [PACKET_TAG; 1 + MAX_VARINT_LENGTH];
        for (to, from) in bytes.iter_mut().skip(1).zip(varint) {
            *to = from;
        }
        Self {
            bytes,
            length: 1 + digits,
        }
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}
