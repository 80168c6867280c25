//! Hostile input to the decoder, which may only lead to an error.

use ferretto_proto::{
    DataSourceConfig, DebugAnnotation, DecodeError, IPCFrame, Message, ObservableEvents,
    TestConfig, TraceConfig, TraceStats, UnknownFields, fields, trace_config,
};
use ferretto_wire::encode;
use proptest::prelude::*;

/// Asserts that a message is the same when it is decoded, encoded and decoded again, and that its
/// size was foretold.
fn settles<M: Message>(bytes: &[u8]) {
    let Ok(message) = M::decode_from_slice(bytes) else {
        return;
    };
    let encoded = message.encode_to_vec();
    assert_eq!(encoded.len(), message.encoded_len() as usize);
    let mut appended = b"before".to_vec();
    message.encode(&mut appended);
    assert_eq!(appended.split_off(6), encoded);
    let again = M::decode_from_slice(&encoded).expect("what was encoded can be decoded");
    assert_eq!(again.encode_to_vec(), encoded);
}

/// Bytes that are more often messages than random ones: fields with low numbers, nested.
fn fields_of_any_kind() -> impl Strategy<Value = Vec<u8>> {
    let leaf = prop::collection::vec(any::<u8>(), 0..6);
    leaf.prop_recursive(4, 64, 6, |inner| {
        let field = (1u32..50, 0u8..4, any::<u64>(), inner);
        let encoded = field.prop_map(|(number, kind, value, bytes)| {
            encode(|e| match kind {
                0 => e.varint(number, value),
                1 => e.fixed64(number, value),
                2 => e.fixed32(number, value as u32),
                _ => e.bytes(number, &bytes),
            })
        });
        prop::collection::vec(encoded, 0..6).prop_map(|fields| fields.concat())
    })
}

proptest! {
    #[test]
    fn whatever_is_decoded_settles(bytes in fields_of_any_kind()) {
        settles::<TraceConfig>(&bytes);
        settles::<TraceStats>(&bytes);
        settles::<IPCFrame>(&bytes);
        settles::<TestConfig>(&bytes);
        settles::<ObservableEvents>(&bytes);
        if let Ok(unknown) = UnknownFields::decode_from_slice(&bytes) {
            prop_assert_eq!(unknown.as_bytes(), bytes);
        }
    }

    #[test]
    fn no_bytes_bring_a_decoder_down(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        settles::<TraceConfig>(&bytes);
        settles::<IPCFrame>(&bytes);
    }
}

#[test]
fn an_error_names_the_message_and_the_offset() {
    use fields::trace_config::{BUFFERS, DURATION_MS, buffer_config::SIZE_KB};
    let error = |bytes: &[u8]| TraceConfig::decode_from_slice(bytes).expect_err("malformed");
    let wrong = encode(|e| e.nested(BUFFERS, |buffer| buffer.fixed32(SIZE_KB, 7)));
    assert_eq!(
        error(&wrong).to_string(),
        "TraceConfig.BufferConfig: field 1 is not of the type in the schema"
    );
    let mut cut = encode(|e| e.varint(DURATION_MS, 7));
    cut.extend(encode(|e| e.bytes(BUFFERS, b"\x08")));
    assert_eq!(
        error(&cut).to_string(),
        "TraceConfig.BufferConfig: the message ends inside the field at byte 0"
    );
    assert_eq!(
        error(&cut[..4]).to_string(),
        "TraceConfig: the message ends inside the field at byte 2"
    );
    let message = error(&cut);
    assert!(std::error::Error::source(&message).is_some());
}

#[test]
fn an_array_that_ends_inside_a_number_is_refused() {
    let number = fields::trace_stats::CHUNK_PAYLOAD_HISTOGRAM_DEF;
    for array in [&b"\x80"[..], b"\x01\x80", &[0xff; 11]] {
        let bytes = encode(|e| e.bytes(number, array));
        assert_eq!(
            TraceStats::decode_from_slice(&bytes),
            Err(DecodeError::WrongType {
                message: "TraceStats",
                field: number
            })
        );
    }
}

#[test]
fn tiny_elements_cannot_take_much_memory() {
    // Two bytes each, a message of some hundred in memory.
    let empty = encode(|e| e.bytes(fields::trace_config::DATA_SOURCES, b""));
    let size = size_of::<trace_config::DataSource>();
    let limit = (32 << 20) / size;
    assert!(TraceConfig::decode_from_slice(&empty.repeat(limit)).is_ok());
    let error = TraceConfig::decode_from_slice(&empty.repeat(limit + 1)).expect_err("too many");
    assert_eq!(
        error.to_string(),
        "TraceConfig: too many elements, at field 2"
    );
    // Four bytes each, with a second message inside.
    let nested = encode(|e| {
        e.nested(fields::trace_config::DATA_SOURCES, |source| {
            source.bytes(fields::trace_config::data_source::CONFIG, b"");
        });
    });
    let limit = (32 << 20) / (size + size_of::<DataSourceConfig>());
    assert!(TraceConfig::decode_from_slice(&nested.repeat(limit)).is_ok());
    assert!(TraceConfig::decode_from_slice(&nested.repeat(limit + 1)).is_err());
    let string = encode(|e| e.bytes(fields::trace_config::ACTIVATE_TRIGGERS, b""));
    assert!(TraceConfig::decode_from_slice(&string.repeat(2_000_000)).is_err());
}

#[test]
fn unknown_fields_take_as_much_memory_as_they_are_long() {
    let bytes = encode(|e| e.varint(9999, 0)).repeat(3_000_000);
    let config = TraceConfig::decode_from_slice(&bytes).expect("nothing but unknown fields");
    assert!(config.unknown_fields.as_bytes() == bytes);
    assert_eq!(config.unknown_fields.iter().count(), 3_000_000);
}

#[test]
fn messages_nest_a_hundred_deep_and_no_deeper() {
    let deep = |levels: usize| {
        let mut bytes = Vec::new();
        for _ in 1..levels {
            bytes = encode(|e| e.bytes(fields::debug_annotation::ARRAY_VALUES, &bytes));
        }
        DebugAnnotation::decode_from_slice(&bytes)
    };
    assert!(deep(100).is_ok());
    let error = deep(101).expect_err("too deep");
    assert_eq!(error.to_string(), "DebugAnnotation is nested too deep");
    // Groups, which may be unknown fields.
    let groups = |levels: usize| {
        let bytes = [b"\x0b".repeat(levels), b"\x0c".repeat(levels)].concat();
        UnknownFields::decode_from_slice(&bytes)
    };
    assert!(groups(100).is_ok());
    assert!(groups(101).is_err());
    assert!(UnknownFields::decode_from_slice(b"\x0b\x14").is_err());
    assert!(UnknownFields::decode_from_slice(b"\x0b").is_err());
    assert!(UnknownFields::decode_from_slice(b"\x0c").is_err());
}
