//! Packets are checked and completed when they are read.

use crate::support::*;
use ferretto_service::buffer::{Identity, Loss, Packet, Policy};
use ferretto_service::packet::{InvalidPacket, RESERVED_FIELDS, SequenceIds, Trusted, validate};

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// Returns a field with plausible contents.
fn field(number: u64, wire_type: u64) -> Vec<u8> {
    let mut bytes = varint(number << 3 | wire_type);
    match wire_type {
        0 => bytes.extend(varint(300)),
        1 => bytes.extend([1; 8]),
        2 => bytes.extend([3, 1, 2, 3]),
        5 => bytes.extend([1; 4]),
        _ => {}
    }
    bytes
}

/// Returns a packet as it leaves the service, if it is valid.
fn outgoing(packet: &Packet<'_>, ids: &mut SequenceIds) -> Result<Vec<u8>, InvalidPacket> {
    validate(packet.fragments())?;
    let trusted = ids.trusted(packet).encode();
    Ok([&packet.to_vec(), trusted.as_bytes()].concat())
}

/// Returns the verdict on bytes, which must not depend on their division into slices.
fn verdict(bytes: &[u8]) -> Result<(), InvalidPacket> {
    let whole = validate([bytes]);
    for cut in 0..=bytes.len() {
        let (a, b) = bytes.split_at(cut);
        assert_eq!(validate([a, b]), whole, "cut at {cut}");
        assert_eq!(validate([a, &[], b]), whole, "cut at {cut}");
    }
    assert_eq!(validate(bytes.chunks(1)), whole);
    assert_eq!(validate(bytes.chunks(3)), whole);
    whole
}

#[test]
fn tracebuf_043_reserved_fields_anywhere_are_refused() {
    for number in RESERVED_FIELDS {
        for wire_type in [0, 1, 2, 5, 3, 7] {
            for before in [vec![], field(8, 0), field(1, 2)] {
                let bytes = [before, field(number.into(), wire_type), field(8, 0)].concat();
                assert_eq!(verdict(&bytes), Err(InvalidPacket::Reserved(number)));
            }
        }
    }
    for number in (1..300).filter(|number| !RESERVED_FIELDS.contains(number)) {
        assert_eq!(verdict(&field(number.into(), 2)), Ok(()), "field {number}");
    }
}

#[test]
fn tracebuf_043_field_numbers_are_cut_to_32_bits() {
    let bytes = field((1 << 32) + 3, 0);
    assert_eq!(verdict(&bytes), Err(InvalidPacket::Reserved(3)));
}

#[test]
fn tracebuf_043_neighbours_are_unaffected() {
    let mut buffer = ring(4096);
    chunk(1, 1, 0)
        .bytes(&field(8, 0))
        .bytes(&field(3, 0))
        .bytes(&field(1, 2))
        .copy_to(&mut buffer);
    let mut ids = SequenceIds::default();
    let mut sent = Vec::new();
    while let Some(packet) = buffer.read_next() {
        sent.push(outgoing(&packet, &mut ids).ok());
    }
    // uid 1000, sequence 2, pid 1
    let trusted = vec![0x18, 0xe8, 0x07, 0x50, 2, 0xf8, 0x04, 1];
    let first = [field(8, 0), trusted.clone()].concat();
    let third = [field(1, 2), trusted].concat();
    assert_eq!(sent, [Some(first), None, Some(third)]);
}

#[test]
fn tracebuf_044_reserved_numbers_inside_a_field_are_fine() {
    let inner = field(3, 0);
    let bytes = [vec![0x0a, inner.len() as u8], inner].concat();
    assert_eq!(verdict(&bytes), Ok(()));
}

#[test]
fn tracebuf_045_malformed_packets_are_refused() {
    let full = [field(8, 0), field(1, 2), field(4, 1), field(5, 5)].concat();
    assert_eq!(verdict(&full), Ok(()));
    let mut boundary = 0;
    for piece in [field(8, 0), field(1, 2), field(4, 1), field(5, 5)] {
        for len in boundary + 1..boundary + piece.len() {
            assert_eq!(
                verdict(&full[..len]),
                Err(InvalidPacket::Truncated),
                "{len}"
            );
        }
        boundary += piece.len();
    }
    for wire_type in [3, 4, 6, 7] {
        let refused = Err(InvalidPacket::WireType(wire_type as u8));
        assert_eq!(verdict(&field(1, wire_type)), refused);
    }
    let long = [varint(1 << 3 | 2), varint(1 << 28)].concat();
    assert_eq!(verdict(&long), Err(InvalidPacket::TooLong(1 << 28)));
    let endless = [vec![8], vec![0xff; 11], vec![0]].concat();
    assert_eq!(verdict(&endless), Err(InvalidPacket::Varint));
    let longest = [vec![8], vec![0xff; 9], vec![1]].concat();
    assert_eq!(verdict(&longest), Ok(()));
    assert_eq!(
        verdict(&[field(8, 0), vec![0x0a, 200]].concat()),
        Err(InvalidPacket::Truncated)
    );
}

#[test]
fn tracebuf_045_field_numbers_that_no_decoder_takes_are_refused() {
    for number in [0, 1 << 29, 1 << 32, u64::MAX >> 3] {
        for wire_type in [0, 1, 2, 5] {
            let bytes = [field(8, 0), field(number, wire_type)].concat();
            let refused = Err(InvalidPacket::FieldNumber(number));
            assert_eq!(verdict(&bytes), refused, "{number}");
        }
    }
    assert_eq!(verdict(&field((1 << 29) - 1, 2)), Ok(()));
}

#[test]
fn tracebuf_045_large_fields_over_many_slices() {
    let body = vec![0xff; 1_000_000];
    let packet = [varint(1 << 3 | 2), varint(body.len() as u64), body].concat();
    assert_eq!(validate(packet.chunks(4096)), Ok(()));
    assert!(validate(packet[1..].chunks(4096)).is_err());
    assert_eq!(
        validate(packet[..packet.len() - 1].chunks(4096)),
        Err(InvalidPacket::Truncated)
    );
}

#[test]
fn tracebuf_046_fields_of_producers_pass() {
    let bytes = [field(87, 0), field(42, 0), field(6, 2)].concat();
    assert_eq!(verdict(&bytes), Ok(()));
    assert_eq!(verdict(&[]), Ok(()));
}

#[test]
fn tracebuf_040_trusted_fields_follow_the_packet() {
    let trusted = |identity, loss| {
        Trusted {
            identity,
            sequence_id: 300,
            loss,
        }
        .encode()
        .as_bytes()
        .to_vec()
    };
    let local = Identity {
        uid: 0,
        pid: Some(5),
        machine_id: 0,
    };
    assert_eq!(
        trusted(local, Loss::NONE),
        [0x18, 0, 0x50, 0xac, 0x02, 0xf8, 0x04, 5]
    );
    let remote = Identity {
        uid: 7,
        pid: None,
        machine_id: 1,
    };
    assert_eq!(
        trusted(remote, Loss::PRESENT | Loss::OVERWRITE),
        [0x18, 7, 0x50, 0xac, 0x02, 0x90, 0x06, 1, 0xd0, 0x02, 65]
    );
}

#[test]
fn tracebuf_051_the_largest_trusted_fields_fit() {
    let fields = Trusted {
        identity: Identity {
            uid: -2i32 as u32,
            pid: Some(-2),
            machine_id: u32::MAX,
        },
        sequence_id: u32::MAX,
        loss: Loss::PRESENT | Loss::WRITER_ABORT,
    }
    .encode();
    let minus_two = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    let largest = [0xff, 0xff, 0xff, 0xff, 0x0f];
    let expected = [
        &[0x18][..],
        &minus_two,
        &[0x50],
        &largest,
        &[0xf8, 0x04],
        &minus_two,
        &[0x90, 0x06],
        &largest,
        &[0xd0, 0x02, 0x81, 0x01],
    ]
    .concat();
    assert_eq!(fields.as_bytes(), expected);
    assert_eq!(verdict(fields.as_bytes()), Err(InvalidPacket::Reserved(3)));
}

#[test]
fn tracebuf_041_a_writer_keeps_its_sequence_number() {
    let mut ids = SequenceIds::default();
    let here = Identity::default();
    let there = Identity {
        machine_id: 5,
        ..here
    };
    assert_eq!(ids.id(here, 1, 1), 2);
    assert_eq!(ids.id(here, 1, 2), 3);
    assert_eq!(ids.id(there, 1, 1), 4);
    assert_eq!(ids.id(here, 1, 1), 2);
    assert_eq!(ids.id(here, 2, 1), 5);
}

#[test]
fn tracebuf_042_the_producers_word_on_losses_stays() {
    let mut buffer = ring(4096);
    let packet = [varint(42 << 3), varint(257)].concat();
    chunk(1, 1, 0).bytes(&packet).copy_to(&mut buffer);
    chunk(1, 1, 2).bytes(&packet).copy_to(&mut buffer);
    let mut ids = SequenceIds::default();
    let mut next = || {
        let packet = buffer.read_next().expect("a packet");
        outgoing(&packet, &mut ids).expect("a valid packet")
    };
    let sent = [next(), next()];
    let has = |sent: &[u8], value: u64| {
        let field = [varint(42 << 3), varint(value)].concat();
        sent.windows(field.len()).any(|window| window == field)
    };
    assert!(has(&sent[0], 257) && !has(&sent[0], 3));
    // 257 and 3: the last value counts, and must include the reason of the writer.
    assert!(has(&sent[1], 257) && sent[1].ends_with(&[0xd0, 0x02, 0x83, 0x02]));
}

#[test]
fn tracebuf_042_a_loss_told_by_a_writers_first_packet_stays() {
    let mut buffer = v1(4096, Policy::Ring);
    let first = [varint(87 << 3), varint(1)].concat();
    let packet = [first, varint(42 << 3), varint(257)].concat();
    chunk(1, 1, 0).bytes(&packet).copy_to(&mut buffer);
    let packet = buffer.read_next().expect("a packet");
    let sent = outgoing(&packet, &mut SequenceIds::default()).expect("a valid packet");
    assert!(sent.ends_with(&[0xd0, 0x02, 0x81, 0x02]), "{sent:?}");
}
