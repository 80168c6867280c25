//! Variable-length integers.

/// The longest encoding of a 64-bit varint, in bytes.
pub const MAX_VARINT_LENGTH: usize = 10;

/// The largest length that fits in four redundant varint bytes.
pub const MAX_NESTED_LENGTH: u32 = (1 << 28) - 1;

/// Reads a varint from the start of `bytes`: its value and its length in bytes.
///
/// `None` if the bytes end before the varint does, or if it is longer than ten bytes. Bits beyond the 64th are
/// dropped, as other implementations do.
#[inline]
pub fn decode_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (index, &byte) in bytes.iter().take(MAX_VARINT_LENGTH).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Some((value, index + 1));
        }
    }
    None
}

/// Writes `value` at the start of `out` and returns its length in bytes.
///
/// # Panics
///
/// If `out` is shorter than the varint; ten bytes are always enough.
#[inline]
pub fn encode_varint(mut value: u64, out: &mut [u8]) -> usize {
    let mut length = 0;
    while value >= 0x80 {
        out[length] = value as u8 | 0x80;
        value >>= 7;
        length += 1;
    }
    out[length] = value as u8;
    length + 1
}

/// The length in bytes of the shortest encoding of `value`.
#[inline]
pub const fn varint_length(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

/// `length` as a varint of exactly four bytes, the form used where the length is filled in after the fact.
///
/// A length above [`MAX_NESTED_LENGTH`] is clamped to it.
#[inline]
pub const fn redundant_length(length: u32) -> [u8; 4] {
    let length = if length > MAX_NESTED_LENGTH {
        MAX_NESTED_LENGTH
    } else {
        length
    };
    [
        length as u8 | 0x80,
        (length >> 7) as u8 | 0x80,
        (length >> 14) as u8 | 0x80,
        (length >> 21) as u8 & 0x7f,
    ]
}

/// Maps a signed integer to an unsigned one so that small magnitudes stay small (`sint32`, `sint64`).
#[inline]
pub const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The inverse of [`zigzag`].
#[inline]
pub const fn zigzag_decode(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}
