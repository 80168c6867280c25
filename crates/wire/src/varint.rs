//! Variable-length integers.

/// The longest encoding of a 64-bit varint, in bytes.
pub const MAX_VARINT_LENGTH: usize = 10;

/// The largest length that fits in four redundant varint bytes.
pub const MAX_NESTED_LENGTH: u32 = (1 << 28) - 1;

/// Decodes a varint at the start of `bytes`, and returns it with its length in bytes.
///
/// `None` if the bytes end before the varint does, or if it is longer than ten bytes. Bits beyond
/// the 64th are dropped, as in other implementations.
#[inline]
pub fn decode_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    match *bytes {
        [a, ..] if a < 0x80 => return Some((a.into(), 1)),
        [a, b, ..] if b < 0x80 => return Some((u64::from(a & 0x7f) | u64::from(b) << 7, 2)),
        _ => {}
    }
    let Some(eight) = bytes.first_chunk() else {
        return decode_bytewise(bytes);
    };
    let word = u64::from_le_bytes(*eight);
    let ends = !word & 0x8080_8080_8080_8080;
    if ends == 0 {
        return decode_bytewise(bytes);
    }
    let bits = ends.trailing_zeros() + 1;
    // Moves the groups of seven bits together, in steps of 7, 14 and 28 bits.
    let low = word & (u64::MAX >> (64 - bits)) & 0x7f7f_7f7f_7f7f_7f7f;
    let low = low & 0x007f_007f_007f_007f | (low & 0x7f00_7f00_7f00_7f00) >> 1;
    let low = low & 0x0000_3fff_0000_3fff | (low & 0x3fff_0000_3fff_0000) >> 2;
    let low = low & 0x0fff_ffff | (low & 0x0fff_ffff_0000_0000) >> 4;
    Some((low, bits as usize / 8))
}

/// Decodes a varint near the end of its message, or one of more than eight bytes.
#[inline(never)]
fn decode_bytewise(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (index, &byte) in bytes.iter().take(MAX_VARINT_LENGTH).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Some((value, index + 1));
        }
    }
    None
}

/// Writes `value` at the start of `out`, and returns its length in bytes.
///
/// # Panics
///
/// Panics if `out` is shorter than the varint; ten bytes always suffice.
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

/// Returns `value` as a varint, lowest byte first, and its length in bytes. No bit above the length
/// is set.
///
/// It takes a few register operations for any value, where a loop would mispredict its end.
#[inline]
pub const fn varint_bits(value: u64) -> (u128, usize) {
    if value < 0x80 {
        return (value as u128, 1);
    }
    let (low, length) = short_varint_bits(value);
    if length <= 8 {
        return (low as u128, length);
    }
    let ninth = value >> 56 & 0x7f;
    let high = if length == 9 {
        ninth
    } else {
        ninth | 0x80 | (value >> 63) << 8
    };
    (
        (low | 0x8080_8080_8080_8080) as u128 | (high as u128) << 64,
        length,
    )
}

/// Returns what [`varint_bits`] does for values below 2^56, without a branch. For larger values,
/// the length is correct, and so are the lowest seven bits of each of the first eight bytes.
#[inline]
pub const fn short_varint_bits(value: u64) -> (u64, usize) {
    let length = varint_length(value);
    // Moves the groups of seven bits apart, in steps of 28, 14 and 7 bits.
    let low = value & 0x00ff_ffff_ffff_ffff;
    let low = low & 0x0fff_ffff | (low & 0x00ff_ffff_f000_0000) << 4;
    let low = low & 0x0000_3fff_0000_3fff | (low & 0x0fff_c000_0fff_c000) << 2;
    let low = low & 0x007f_007f_007f_007f | (low & 0x3f80_3f80_3f80_3f80) << 1;
    // The bit that is set in each byte but the last.
    let more = 0x0080_8080_8080_8080 & ((1u64 << ((8 * (length - 1)) & 63)) - 1);
    (low | more, length)
}

/// Returns the length in bytes of the shortest encoding of `value`.
#[inline]
pub const fn varint_length(value: u64) -> usize {
    let last_bit = 63 - (value | 1).leading_zeros() as usize;
    // A seventh of the number of bits, rounded up, without a division.
    (last_bit * 9 + 73) / 64
}

/// Returns `length` as a varint of exactly four bytes, as used where the length is filled in later.
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

/// Maps a signed integer to an unsigned one, so that small magnitudes stay small (`sint32`,
/// `sint64`).
#[inline]
pub const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Returns the inverse of [`zigzag`].
#[inline]
pub const fn zigzag_decode(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::{decode_bytewise, decode_varint, encode_varint, short_varint_bits, varint_bits};

    #[test]
    fn decoding_at_once_and_byte_by_byte_agree() {
        let edges = (0..64).flat_map(|bit| [1u64 << bit, (1 << bit) - 1, !0 << bit]);
        for value in edges.chain([0, 300, u64::MAX, 0x1234_5678_9abc_def0]) {
            for behind in [0, 0x7f, 0x80, 0xff] {
                let mut bytes = [behind; 20];
                let length = encode_varint(value, &mut bytes);
                for end in 0..=bytes.len() {
                    let bytes = &bytes[..end];
                    let read = (end >= length).then_some((value, length));
                    assert_eq!(decode_varint(bytes), read, "{value:#x}, {end} bytes");
                    assert_eq!(decode_bytewise(bytes), read, "{value:#x}, {end} bytes");
                }
            }
        }
        // The length of a nested message always has four bytes.
        assert_eq!(
            decode_varint(&[0x85, 0x80, 0x80, 0, 1, 2, 3, 4]),
            Some((5, 4))
        );
        assert_eq!(decode_varint(&[0xff; 30]), None);
    }

    #[test]
    fn varints_in_registers_and_in_memory_agree() {
        let edges = (0..64).flat_map(|bit| [1u64 << bit, (1 << bit) - 1, !0 << bit]);
        for value in edges.chain([0, 300, u64::MAX, 0x1234_5678_9abc_def0]) {
            let mut bytes = [0; 16];
            let length = encode_varint(value, &mut bytes);
            assert_eq!(
                varint_bits(value),
                (u128::from_le_bytes(bytes), length),
                "{value:#x}"
            );
            let (bits, short_length) = short_varint_bits(value);
            assert_eq!(short_length, length, "{value:#x}");
            if length <= 8 {
                assert_eq!(bits.to_le_bytes(), bytes[..8], "{value:#x}");
            }
        }
    }
}
