//! Round trips and hostile bytes.

use ferretto_wire::{DecodeError, Encoder, Field, Fields, Mark, Sink, Value, redundant_length};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Node {
    Varint(u64),
    Sint(i64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(Vec<u8>),
    Nested(Vec<(u32, Self)>),
}

fn number() -> impl Strategy<Value = u32> {
    prop_oneof![1u32..=20, Just(900), 1u32..(1 << 29)]
}

fn message() -> impl Strategy<Value = Vec<(u32, Node)>> {
    let leaf = prop_oneof![
        any::<u64>().prop_map(Node::Varint),
        any::<i64>().prop_map(Node::Sint),
        any::<u64>().prop_map(Node::Fixed64),
        any::<u32>().prop_map(Node::Fixed32),
        prop::collection::vec(any::<u8>(), 0..200).prop_map(Node::Bytes),
    ];
    let node = leaf.prop_recursive(4, 64, 8, |inner| {
        prop::collection::vec((number(), inner), 0..8).prop_map(Node::Nested)
    });
    prop::collection::vec((number(), node), 0..12)
}

fn write<S: Sink + ?Sized>(encoder: &mut Encoder<'_, S>, message: &[(u32, Node)]) {
    for (number, node) in message {
        match node {
            Node::Varint(value) => encoder.varint(*number, *value),
            Node::Sint(value) => encoder.sint(*number, *value),
            Node::Fixed64(value) => encoder.fixed64(*number, *value),
            Node::Fixed32(value) => encoder.fixed32(*number, *value),
            Node::Bytes(value) => encoder.bytes(*number, value),
            Node::Nested(children) => encoder.nested(*number, |child| write(child, children)),
        }
    }
}

fn check(bytes: &[u8], message: &[(u32, Node)]) {
    let fields: Vec<Field<'_>> = Fields::new(bytes)
        .collect::<Result<_, _>>()
        .expect("own encoding decodes");
    assert_eq!(fields.len(), message.len());
    for (field, (number, node)) in fields.iter().zip(message) {
        assert_eq!(field.number, *number);
        match node {
            Node::Varint(value) => assert_eq!(field.value, Value::Varint(*value)),
            Node::Sint(value) => assert_eq!(field.as_sint(), Some(*value)),
            Node::Fixed64(value) => assert_eq!(field.value, Value::Fixed64(*value)),
            Node::Fixed32(value) => assert_eq!(field.value, Value::Fixed32(*value)),
            Node::Bytes(value) => assert_eq!(field.as_bytes(), Some(value.as_slice())),
            Node::Nested(children) => check(field.as_bytes().expect("nested"), children),
        }
    }
}

/// Memory in pieces of a fixed size, like shared memory: nested lengths are never compacted and
/// always contiguous.
struct Pieces {
    size: usize,
    pieces: Vec<Vec<u8>>,
    position: u64,
    holes: Vec<(usize, usize)>,
}

impl Sink for Pieces {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if self
                .pieces
                .last()
                .is_none_or(|piece| piece.len() == self.size)
            {
                self.pieces.push(Vec::new());
            }
            self.pieces.last_mut().expect("pushed").push(byte);
        }
        self.position += bytes.len() as u64;
    }

    fn position(&self) -> u64 {
        self.position
    }

    fn open(&mut self) -> Mark {
        if self
            .pieces
            .last()
            .is_none_or(|piece| piece.len() + 4 > self.size)
        {
            self.pieces.push(Vec::new());
        }
        let piece = self.pieces.len() - 1;
        self.holes.push((piece, self.pieces[piece].len()));
        self.write(&[0; 4]);
        Mark {
            start: self.position,
            slot: self.holes.len() - 1,
        }
    }

    fn close(&mut self, mark: Mark) {
        let (piece, offset) = self.holes[mark.slot];
        let length = redundant_length((self.position - mark.start) as u32);
        self.pieces[piece][offset..offset + 4].copy_from_slice(&length);
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(message in message()) {
        let bytes = ferretto_wire::encode(|encoder| write(encoder, &message));
        check(&bytes, &message);
    }

    #[test]
    fn chunked_memory_holds_the_same_message(message in message(), size in 4usize..64) {
        let mut sink = Pieces { size, pieces: Vec::new(), position: 0, holes: Vec::new() };
        write(&mut Encoder::new(&mut sink), &message);
        check(&sink.pieces.concat(), &message);
    }

    #[test]
    fn any_bytes_are_walked_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut fields = Fields::new(&bytes);
        let mut last = 0;
        while let Some(field) = fields.next() {
            prop_assert!(fields.offset() > last && fields.offset() <= bytes.len());
            last = fields.offset();
            if let Ok(field) = field {
                let _ = (field.as_u64(), field.as_i64(), field.as_bool(), field.as_f64(), field.as_str_lossy());
                field.as_varints().count();
            } else {
                prop_assert!(fields.next().is_none());
            }
        }
    }

    #[test]
    fn a_prefix_of_a_message_gives_whole_fields_then_an_error(message in message(), cut in any::<prop::sample::Index>()) {
        let bytes = ferretto_wire::encode(|encoder| write(encoder, &message));
        let cut = cut.index(bytes.len() + 1);
        let whole: Vec<_> = Fields::new(&bytes).map_while(Result::ok).collect();
        let part: Vec<_> = Fields::new(&bytes[..cut]).map_while(Result::ok).collect();
        prop_assert!(part.len() <= whole.len());
        prop_assert_eq!(&part[..], &whole[..part.len()]);
    }
}

#[test]
fn malformed_bytes_say_what_is_wrong() {
    let error = |bytes: &[u8]| Fields::new(bytes).find_map(Result::err).expect("an error");
    assert_eq!(error(&[0x08]), DecodeError::Truncated { offset: 0 });
    assert_eq!(error(&[0x08, 0x80]), DecodeError::Truncated { offset: 0 });
    assert_eq!(error(&[0x80]), DecodeError::Truncated { offset: 0 });
    assert_eq!(
        error(&[0x09, 1, 2, 3]),
        DecodeError::Truncated { offset: 0 }
    );
    assert_eq!(
        error(&[0x0d, 1, 2, 3]),
        DecodeError::Truncated { offset: 0 }
    );
    assert_eq!(error(&[0x0a, 5, 1]), DecodeError::Truncated { offset: 0 });
    assert_eq!(
        error(&[
            0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1
        ]),
        DecodeError::Truncated { offset: 0 }
    );
    let mut long = vec![0x08, 0x01, 0x10];
    long.extend([0xff; 11]);
    assert_eq!(error(&long), DecodeError::VarintTooLong { offset: 2 });
    assert_eq!(
        error(&[0x00, 0x01]),
        DecodeError::BadFieldNumber { offset: 0 }
    );
    assert_eq!(
        error(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x01, 0x01]),
        DecodeError::BadFieldNumber { offset: 0 }
    );
    for wire_type in [3u8, 4, 6, 7] {
        assert_eq!(
            error(&[0x08 | wire_type]),
            DecodeError::UnsupportedWireType {
                offset: 0,
                wire_type
            }
        );
    }
}

#[test]
fn negative_numbers_take_ten_bytes() {
    let bytes = ferretto_wire::encode(|m| m.int(1, -1));
    assert_eq!(bytes.len(), 11);
    assert_eq!(
        Fields::find(1, &bytes).and_then(|field| field.as_i64()),
        Some(-1)
    );
}

#[test]
fn short_nested_messages_have_a_one_byte_length() {
    let encode = |n: usize| ferretto_wire::encode(|m| m.nested(1, |c| c.raw(&vec![0x08; n])));
    assert_eq!(encode(127)[..2], [0x0a, 127]);
    assert_eq!(encode(128)[..5], [0x0a, 0x80, 0x81, 0x80, 0x00]);
}

#[test]
fn packed_and_single_elements_read_alike() {
    let packed = Field {
        number: 1,
        value: Value::Bytes(&[1, 0x96, 1, 3]),
    };
    assert_eq!(packed.as_varints().collect::<Vec<_>>(), [1, 150, 3]);
    let single = Field {
        number: 1,
        value: Value::Varint(7),
    };
    assert_eq!(single.as_varints().collect::<Vec<_>>(), [7]);
}
