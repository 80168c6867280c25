//! Filter bytecode: 32-bit words as varints, the last of which is a checksum of the others.

use ferretto_format::Fnv1a;
use ferretto_wire::{decode_varint, varint_length};

/// Decodes the words without the checksum; `None` if the checksum is missing or wrong, or a varint
/// is not in its shortest form or does not fit 32 bits.
pub(super) fn decode(mut bytes: &[u8]) -> Option<Vec<u32>> {
    // A word takes at least a byte; most take one or two.
    let mut words = Vec::with_capacity(bytes.len());
    while !bytes.is_empty() {
        let (value, length) = decode_varint(bytes)?;
        if length != varint_length(value) {
            return None;
        }
        words.push(u32::try_from(value).ok()?);
        bytes = bytes.get(length..)?;
    }
    let checksum = words.pop()?;
    (checksum == self::checksum(&words)).then_some(words)
}

/// Returns the lower half of FNV-1a 64 over the words as little-endian bytes.
pub(super) fn checksum(words: &[u32]) -> u32 {
    let add = |hash: Fnv1a, word: &u32| hash.update(&word.to_le_bytes());
    words.iter().fold(Fnv1a::new(), add).finish() as u32
}

#[cfg(test)]
pub(super) fn encode(words: &[u32]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in words.iter().copied().chain([checksum(words)]) {
        let mut varint = [0; 10];
        let length = ferretto_wire::encode_varint(word.into(), &mut varint);
        bytes.extend_from_slice(&varint[..length]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output of upstream's bytecode generator for a small schema.
    const SAMPLE: &[u8] = &[
        0x0b, 0x01, 0x00, 0x0b, 0x02, 0x41, 0x51, 0x69, 0xd1, 0x02, 0x00, 0x09, 0x13, 0x03, 0x19,
        0x00, 0x0a, 0x02, 0x23, 0x04, 0x00, 0x0a, 0x07, 0x00, 0xbb, 0xe1, 0xdf, 0xe7, 0x0e,
    ];

    #[test]
    fn service_061_checksum() {
        let words = decode(SAMPLE).unwrap();
        assert_eq!(words.len(), 23);
        assert_eq!(checksum(&words), 0xecf7_f0bb);
        assert_eq!(encode(&words), SAMPLE);
        assert_eq!(decode(&[]), None);
        assert_eq!(
            decode(&encode(&[])),
            Some(vec![]),
            "a checksum of nothing stands alone"
        );
        for bit in 0..SAMPLE.len() * 8 {
            let mut bytes = SAMPLE.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&bytes), None, "bit {bit}");
        }
    }
}
