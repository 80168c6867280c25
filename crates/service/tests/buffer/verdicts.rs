//! The check of packets compared to a simple one that works byte by byte.

use ferretto_service::packet::{InvalidPacket, RESERVED_FIELDS, validate};
use proptest::prelude::*;

use crate::support::cases;

/// Checks a packet by the rules as documented.
fn verdict(bytes: &[u8]) -> Result<(), InvalidPacket> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let key = varint(&mut rest)?;
        let number = key >> 3;
        // The number is truncated to 32 bits before it is checked.
        if RESERVED_FIELDS.contains(&(number as u32)) {
            return Err(InvalidPacket::Reserved(number as u32));
        }
        if number == 0 || number >= 1 << 29 {
            return Err(InvalidPacket::FieldNumber(number));
        }
        let content = match key & 7 {
            0 => {
                varint(&mut rest)?;
                0
            }
            1 => 8,
            2 => match varint(&mut rest)? {
                length @ 0..0x1000_0000 => length as usize,
                length => return Err(InvalidPacket::TooLong(length)),
            },
            5 => 4,
            other => return Err(InvalidPacket::WireType(other as u8)),
        };
        rest = rest.get(content..).ok_or(InvalidPacket::Truncated)?;
    }
    Ok(())
}

fn varint(rest: &mut &[u8]) -> Result<u64, InvalidPacket> {
    let mut value = 0;
    for index in 0..10 {
        let (&byte, behind) = rest.split_first().ok_or(InvalidPacket::Truncated)?;
        *rest = behind;
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(InvalidPacket::Varint)
}

/// Encodes a varint of at least `width` bytes.
fn padded(mut value: u64, width: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 || bytes.len() + 1 < width {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn numbers() -> impl Strategy<Value = u64> {
    prop_oneof![
        20 => 1..16u64,
        20 => 16..140u64,
        5 => prop::sample::select(RESERVED_FIELDS.map(u64::from).to_vec()),
        5 => 140..1u64 << 29,
        1 => prop_oneof![Just(0), Just((1 << 29) - 1), Just(1 << 29), Just((1 << 32) + 3)],
        1 => 0..1u64 << 61,
    ]
}

fn wire_types() -> impl Strategy<Value = u64> {
    prop_oneof![20 => prop::sample::select(vec![0, 1, 2, 2, 2, 5]), 1 => 0..8u64]
}

/// Returns the widths of padded varints: none, that of lengths filled in later, and too large ones.
fn widths() -> impl Strategy<Value = usize> {
    prop_oneof![20 => Just(1), 10 => Just(4), 5 => 2..11usize, 1 => 11..13usize]
}

fn values() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        0..300u64,
        (0..64u32).prop_map(|bits| 1 << bits),
        any::<u64>()
    ]
}

/// Returns the bytes of a field with a length: arbitrary bytes, or fields again.
fn contents() -> impl Strategy<Value = Vec<u8>> {
    let bytes = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..20),
        1 => prop::collection::vec(any::<u8>(), 120..140),
        1 => (16_370..16_400usize).prop_map(|size| vec![7; size]),
    ];
    bytes.prop_recursive(3, 8, 4, |inner| {
        let nested = (1..16u64, inner, widths()).prop_map(|(number, content, width)| {
            let length = padded(content.len() as u64, width);
            [padded(number << 3 | 2, 1), length, content].concat()
        });
        prop::collection::vec(nested, 0..4).prop_map(|fields| fields.concat())
    })
}

fn fields() -> impl Strategy<Value = Vec<u8>> {
    let key = (numbers(), wire_types(), widths());
    // One in twenty has a wrong length.
    let false_length = prop::option::weighted(0.05, values());
    (key, values(), contents(), widths(), false_length).prop_map(
        |((number, wire_type, key_width), value, content, width, false_length)| {
            let key = padded(number << 3 | wire_type, key_width);
            let rest = match wire_type {
                0 => padded(value, width),
                1 => value.to_le_bytes().to_vec(),
                2 => {
                    let length = false_length.unwrap_or(content.len() as u64);
                    [padded(length, width), content].concat()
                }
                5 => value.to_le_bytes()[..4].to_vec(),
                _ => vec![],
            };
            [key, rest].concat()
        },
    )
}

/// Returns packets, some of which are truncated, have a changed byte or are arbitrary bytes.
fn packets() -> impl Strategy<Value = Vec<u8>> {
    let packet = prop::collection::vec(fields(), 0..6).prop_map(|fields| fields.concat());
    let whole = packet.boxed();
    let index = any::<prop::sample::Index>;
    prop_oneof![
        6 => whole.clone(),
        3 => (whole.clone(), index()).prop_map(|(mut packet, end)| {
            packet.truncate(end.index(packet.len() + 1));
            packet
        }),
        2 => (whole, index(), any::<u8>()).prop_map(|(mut packet, at, byte)| {
            packet.push(0);
            let at = at.index(packet.len());
            packet[at] = byte;
            packet
        }),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ]
}

/// Splits bytes into slices of these sizes, in turn.
fn pieces<'a>(mut bytes: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for size in sizes.iter().cycle() {
        if bytes.is_empty() {
            break;
        }
        let (piece, behind) = bytes.split_at((*size).min(bytes.len()));
        pieces.push(piece);
        bytes = behind;
    }
    pieces
}

#[test]
fn tracebuf_045_lengths_of_every_size_and_width_are_followed() {
    const BLOCK: usize = 1 << 16;
    let block = vec![0xff; BLOCK];
    let lengths = (0..28).flat_map(|bits| [(1usize << bits) - 1, 1 << bits]);
    for length in lengths.chain([(1 << 28) - 1]) {
        for width in 1..=5 {
            let (begin, rest) = (length.min(16), length - length.min(16));
            let header = padded(length as u64, width);
            let first = [&[0x0a], &header[..], &block[..begin]].concat();
            let blocks = std::iter::repeat_n(&block[..], rest / BLOCK);
            let last = &block[..rest % BLOCK];
            let pieces = [&first[..]].into_iter().chain(blocks).chain([last]);
            let behind = |bytes| validate(pieces.clone().chain([bytes]));
            assert_eq!(behind(&[0x08, 1]), Ok(()), "{length} in {width}");
            assert_eq!(behind(&[0x18, 1]), Err(InvalidPacket::Reserved(3)));
            assert_eq!(behind(&[0x08]), Err(InvalidPacket::Truncated));
        }
    }
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn tracebuf_045_verdicts_are_those_of_the_plain_rules(
        packet in packets(),
        sizes in prop::collection::vec(0..30usize, 0..6),
    ) {
        let expected = verdict(&packet);
        prop_assert_eq!(validate([&packet[..]]), expected);
        // At least one size is not 0, so that this ends.
        let sizes = [&sizes[..], &[17]].concat();
        prop_assert_eq!(validate(pieces(&packet, &sizes)), expected);
        prop_assert_eq!(validate(packet.chunks(1)), expected);
        prop_assert_eq!(validate(packet.chunks(512)), expected);
    }
}
