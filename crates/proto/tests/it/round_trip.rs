//! The parts of messages that survive decoding and encoding again.

use ferretto_proto::{
    CommitDataRequest, DataSourceConfig, FtraceConfig, IPCFrame, Message, TraceConfig, TraceStats,
    decode_lazy, fields, ipc_frame, trace_config, trace_stats,
};

/// A field in wire form: key, then the value as given.
fn field(number: u32, wire_type: u32, value: &[u8]) -> Vec<u8> {
    let mut out = varint(u64::from(number << 3 | wire_type));
    out.extend_from_slice(value);
    out
}

fn length_delimited(number: u32, value: &[u8]) -> Vec<u8> {
    let mut body = varint(value.len() as u64);
    body.extend_from_slice(value);
    field(number, 2, &body)
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

fn again<M: Message>(bytes: &[u8]) -> Vec<u8> {
    M::decode_from_slice(bytes)
        .expect("decodes")
        .encode_to_vec()
}

#[test]
fn unknown_fields_of_every_wire_type_are_kept_byte_for_byte() {
    let mut bytes = field(fields::trace_config::DURATION_MS, 0, &varint(5000));
    bytes.extend(field(5001, 0, &varint(u64::MAX)));
    bytes.extend(field(5000, 1, &[1, 2, 3, 4, 5, 6, 7, 8]));
    bytes.extend(length_delimited(5003, b"\xff\xfe not text \0"));
    bytes.extend(field(5002, 5, &[9, 8, 7, 6]));
    bytes.extend(field(5004, 3, &field(1, 0, &varint(7))));
    bytes.extend(field(5004, 4, &[]));
    bytes.extend(field(5001, 0, &varint(1)));
    assert_eq!(again::<TraceConfig>(&bytes), bytes);
}

#[test]
fn unknown_fields_of_nested_messages_are_kept() {
    let config = length_delimited(7777, b"for a producer newer than us");
    let source = length_delimited(fields::trace_config::data_source::CONFIG, &config);
    let bytes = length_delimited(fields::trace_config::DATA_SOURCES, &source);
    assert_eq!(again::<TraceConfig>(&bytes), bytes);
}

#[test]
fn fields_without_a_rust_type_are_kept() {
    let mut bytes = length_delimited(fields::data_source_config::NAME, b"android.log");
    let log_config = field(fields::android_log_config::MIN_PRIO, 0, &varint(4));
    bytes.extend(length_delimited(
        fields::data_source_config::ANDROID_LOG_CONFIG,
        &log_config,
    ));
    assert_eq!(again::<DataSourceConfig>(&bytes), bytes);
}

#[test]
fn unknown_enum_values_are_kept() {
    let bytes = field(
        fields::trace_config::buffer_config::FILL_POLICY,
        0,
        &varint(99),
    );
    let decoded = trace_config::BufferConfig::decode_from_slice(&bytes).expect("decodes");
    assert_eq!(decoded.fill_policy, None, "not a value we know");
    assert_eq!(decoded.encode_to_vec(), bytes);
}

#[test]
fn strings_need_not_be_utf8() {
    let name = b"caf\xe9\xff\0";
    let bytes = length_delimited(fields::data_source_config::NAME, name);
    let decoded = DataSourceConfig::decode_from_slice(&bytes).expect("decodes");
    assert_eq!(decoded.name.as_deref(), Some(&name[..]));
    assert_eq!(decoded.encode_to_vec(), bytes);
}

#[test]
fn repeated_numbers_are_read_packed_and_unpacked_and_written_unpacked() {
    let number = fields::trace_stats::CHUNK_PAYLOAD_HISTOGRAM_DEF;
    let unpacked: Vec<u8> = [1, 300, 3]
        .iter()
        .flat_map(|v| field(number, 0, &varint(*v)))
        .collect();
    let packed = length_delimited(number, &[1, 0xac, 0x02, 3]);
    for bytes in [&unpacked, &packed] {
        let stats = TraceStats::decode_from_slice(bytes).expect("decodes");
        assert_eq!(stats.chunk_payload_histogram_def, [1, 300, 3]);
        assert_eq!(stats.encode_to_vec(), unpacked);
    }
}

#[test]
fn numbers_that_the_schema_packs_are_written_packed() {
    let stats = trace_stats::WriterStats {
        chunk_payload_histogram_counts: vec![1, 300, 3],
        ..Default::default()
    };
    let number = fields::trace_stats::writer_stats::CHUNK_PAYLOAD_HISTOGRAM_COUNTS;
    assert_eq!(
        stats.encode_to_vec(),
        length_delimited(number, &[1, 0xac, 0x02, 3])
    );
}

#[test]
fn present_zeroes_differ_from_absent_fields() {
    let config = FtraceConfig {
        buffer_size_kb: Some(0),
        ..Default::default()
    };
    let bytes = config.encode_to_vec();
    assert_eq!(bytes, field(fields::ftrace_config::BUFFER_SIZE_KB, 0, &[0]));
    let decoded = FtraceConfig::decode_from_slice(&bytes).expect("decodes");
    assert_eq!(decoded.buffer_size_kb, Some(0));
    assert_eq!(decoded.drain_period_ms, None);
}

#[test]
fn an_empty_method_in_a_frame_is_still_a_method() {
    let bytes = length_delimited(fields::ipc_frame::MSG_INVOKE_METHOD, b"");
    let frame = IPCFrame::decode_from_slice(&bytes).expect("decodes");
    assert!(matches!(
        frame.msg,
        Some(ipc_frame::Msg::MsgInvokeMethod(_))
    ));
    assert_eq!(frame.encode_to_vec(), bytes);
}

#[test]
fn malformed_bytes_are_errors() {
    let cut = length_delimited(fields::commit_data_request::CHUNKS_TO_MOVE, &[8, 1, 16, 2]);
    for length in 1..cut.len() {
        assert!(
            CommitDataRequest::decode_from_slice(&cut[..length]).is_err(),
            "{length} bytes"
        );
    }
    assert!(CommitDataRequest::decode_from_slice(&[0xff; 16]).is_err());
    let endless_nesting = field(1, 3, &[]).repeat(100_000);
    assert!(CommitDataRequest::decode_from_slice(&endless_nesting).is_err());
}

#[test]
fn configs_of_single_sources_are_passed_on_as_they_were_written() {
    // Fields out of order, a length of four bytes, a field given twice.
    let events = [0x0a, 0x81, 0x80, 0x80, 0x00, b'x'];
    let size = field(fields::ftrace_config::BUFFER_SIZE_KB, 0, &varint(7));
    let odd = [&size[..], &events, &size].concat();
    let bytes = length_delimited(fields::data_source_config::FTRACE_CONFIG, &odd);
    assert_eq!(again::<DataSourceConfig>(&bytes), bytes);

    let decoded = DataSourceConfig::decode_from_slice(&bytes).expect("decodes");
    let ftrace: FtraceConfig = decode_lazy(&decoded.ftrace_config).expect("decodes");
    assert_eq!(ftrace.buffer_size_kb, Some(7));
    let absent: FtraceConfig = decode_lazy(&None).expect("nothing to decode");
    assert_eq!(absent, FtraceConfig::default());
}
