//! Tests of printing messages in text format.

use std::io;

use ferretto_proto::fields;
use ferretto_text::print::{TextPrinter, message_to_text};
use ferretto_wire::encode;

fn text(message: &str, bytes: &[u8]) -> String {
    let name = format!("perfetto.protos.{message}");
    let text = message_to_text(&name, bytes).expect("a message of the schema");
    String::from_utf8(text).expect("text")
}

#[test]
fn a_packet_is_printed_with_names_nesting_and_enums() {
    let packet = encode(|packet| {
        packet.varint(fields::trace_packet::TIMESTAMP, 123_456_789);
        packet.nested(fields::trace_packet::CLOCK_SNAPSHOT, |snapshot| {
            snapshot.varint(fields::clock_snapshot::PRIMARY_TRACE_CLOCK, 6);
            snapshot.nested(fields::clock_snapshot::CLOCKS, |clock| {
                clock.varint(fields::clock_snapshot::clock::CLOCK_ID, 6);
                clock.bool(fields::clock_snapshot::clock::IS_INCREMENTAL, true);
            });
        });
    });
    let mut printer = TextPrinter::new(Vec::new());
    printer.packet(&packet).expect("a vector takes all");
    printer.packet(&[]).expect("a vector takes all");
    printer.flush().expect("a vector takes all");
    let printed = String::from_utf8(printer.into_inner()).expect("text");
    assert_eq!(
        printed,
        "\
packet {
  timestamp: 123456789
  clock_snapshot {
    primary_trace_clock: BUILTIN_CLOCK_BOOTTIME
    clocks {
      clock_id: 6
      is_incremental: true
    }
  }
}
packet {
}
"
    );
}

#[test]
fn characters_that_control_a_terminal_are_escaped() {
    let thread = encode(|thread| {
        thread.string(
            fields::thread_descriptor::THREAD_NAME,
            "ünï\u{202e}gpj\u{1b}",
        );
    });
    let expected = "thread_name: \"ünï\\342\\200\\256gpj\\033\"\n";
    assert_eq!(text("ThreadDescriptor", &thread), expected);
}

#[test]
fn programs_and_states_of_protovm_are_printed() {
    use fields::trace_packet::proto_vms::{INSTANCE, instance};
    use fields::{trace_packet, vm_instruction, vm_program};

    let program = encode(|program| {
        program.nested(vm_program::INSTRUCTIONS, |instruction| {
            instruction.nested(vm_instruction::MERGE, |_| {});
            instruction.varint(vm_instruction::ABORT_LEVEL, 3);
        });
    });
    let packet = encode(|packet| {
        packet.nested(trace_packet::PROTOVMS, |vms| {
            vms.nested(INSTANCE, |vm| {
                vm.bytes(instance::PROGRAM, &program);
                vm.nested(instance::STATE, |state| {
                    state.varint(trace_packet::TIMESTAMP, 5)
                });
                vm.varint(instance::MEMORY_LIMIT_KB, 64);
                vm.varint(instance::PRODUCER_ID, 1);
            });
        });
    });
    let expected = "\
protovms {
  instance {
    program {
      instructions {
        merge {
        }
        abort_level: ABORT
      }
    }
    state {
      timestamp: 5
    }
    memory_limit_kb: 64
    producer_id: 1
  }
}
";
    assert_eq!(text("TracePacket", &packet), expected);
}

#[test]
fn fields_keep_the_order_of_the_bytes() {
    let bytes = encode(|config| {
        config.varint(fields::trace_config::DURATION_MS, 5);
        config.bool(fields::trace_config::WRITE_INTO_FILE, false);
        config.varint(fields::trace_config::DURATION_MS, 6);
    });
    let expected = "duration_ms: 5\nwrite_into_file: false\nduration_ms: 6\n";
    assert_eq!(text("TraceConfig", &bytes), expected);
}

#[test]
fn unknown_fields_are_printed_by_number() {
    let bytes = encode(|config| {
        config.varint(5000, 7);
        config.fixed32(5001, 10);
        config.fixed64(5002, 11);
        config.string(5003, "plain text");
        config.bytes(5004, &[0xff, 0xfe]);
        config.bytes(5006, b"");
        config.nested(5005, |child| {
            child.varint(1, 2);
            child.string(2, "x");
        });
    });
    assert_eq!(
        text("TraceConfig", &bytes),
        "\
5000: 7
5001: 0x0000000a
5002: 0x000000000000000b
5003: \"plain text\"
5004: \"\\377\\376\"
5006: \"\"
5005 {
  1: 2
  2: \"x\"
}
"
    );
}

#[test]
fn a_known_field_of_the_wrong_wire_type_is_printed_by_number() {
    let bytes = encode(|config| {
        config.string(fields::trace_config::DURATION_MS, "soon");
        config.varint(fields::trace_config::DATA_SOURCES, 3);
    });
    assert_eq!(text("TraceConfig", &bytes), "3: \"soon\"\n2: 3\n");
}

#[test]
fn unknown_enum_values_are_printed_as_numbers() {
    let bytes = encode(|buffer| {
        buffer.varint(fields::trace_config::buffer_config::FILL_POLICY, 99);
        buffer.int(fields::trace_config::buffer_config::FILL_POLICY, -1);
    });
    assert_eq!(
        text("TraceConfig.BufferConfig", &bytes),
        "fill_policy: 99\nfill_policy: -1\n"
    );
}

#[test]
fn packed_and_unpacked_numbers_look_the_same() {
    let number = fields::trace_stats::CHUNK_PAYLOAD_HISTOGRAM_DEF;
    let bytes = encode(|stats| {
        stats.bytes(number, &[1, 0xac, 0x02]);
        stats.int(number, -3);
        stats.bytes(number, &[1, 0xac]);
    });
    assert_eq!(
        text("TraceStats", &bytes),
        "chunk_payload_histogram_def: 1\nchunk_payload_histogram_def: 300\n\
         chunk_payload_histogram_def: -3\n17: \"\\001\\254\"\n"
    );
}

#[test]
fn numbers_have_their_types() {
    use fields::test_event::test_payload as payload;
    let bytes = encode(|event| {
        event.int(payload::SINGLE_INT, -5);
        event.varint(payload::REPEATED_INTS, u64::MAX);
    });
    assert_eq!(
        text("TestEvent.TestPayload", &bytes),
        "single_int: -5\nrepeated_ints: -1\n"
    );

    use fields::debug_annotation as annotation;
    for (value, printed) in [
        (1.0, "1"),
        (0.1, "0.1"),
        (-0.0, "-0"),
        (1e300, "1e300"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
        (f64::NAN, "nan"),
    ] {
        let bytes = encode(|message| message.double(annotation::DOUBLE_VALUE, value));
        assert_eq!(
            text("DebugAnnotation", &bytes),
            format!("double_value: {printed}\n")
        );
    }
}

#[test]
fn strings_keep_letters_and_escape_the_rest() {
    let bytes = encode(|config| {
        let name = "caf\u{e9} \"x\" 'y' \\ \n\t\r\u{1}\u{7f}\u{85}";
        config.string(fields::data_source_config::NAME, name);
        config.bytes(fields::data_source_config::NAME, b"a\xffb");
    });
    assert_eq!(
        text("DataSourceConfig", &bytes),
        "name: \"caf\u{e9} \\\"x\\\" \\'y\\' \\\\ \\n\\t\\r\\001\\177\\302\\205\"\n\
         name: \"a\\377b\"\n"
    );
}

#[test]
fn malformed_bytes_become_a_comment_after_the_valid_fields() {
    let mut source = encode(|source| source.string(fields::data_source_config::NAME, "x"));
    source.extend_from_slice(&[0x12, 0x50, 1]);
    let bytes = encode(|config| {
        config.bytes(fields::trace_config::data_source::CONFIG, &source);
        config.string(fields::trace_config::data_source::PRODUCER_NAME_FILTER, "p");
    });
    let printed = text("TraceConfig.DataSource", &bytes);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[..2], ["config {", "  name: \"x\""]);
    assert!(lines[2].starts_with("  # malformed ("), "{printed}");
    assert!(lines[2].ends_with(": \"\\022P\\001\""), "{printed}");
    assert_eq!(lines[3..], ["}", "producer_name_filter: \"p\""]);
}

#[test]
fn deep_nesting_ends_in_a_comment() {
    let mut annotation = Vec::new();
    for _ in 0..2_000 {
        let number = fields::debug_annotation::DICT_ENTRIES;
        annotation = encode(|message| message.bytes(number, &annotation));
    }
    assert!(text("DebugAnnotation", &annotation).contains("# nested too deeply: "));
}

#[test]
fn any_bytes_can_be_printed() {
    let mut state = 1_u32;
    for length in 0..300 {
        let bytes: Vec<u8> = (0..length)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect();
        text("TracePacket", &bytes);
        text("FtraceEventBundle", &bytes);
    }
}

#[test]
fn unknown_names_have_no_text() {
    assert!(message_to_text("perfetto.protos.Nothing", &[]).is_none());
}

/// A writer without space.
struct Full;

impl io::Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn errors_of_the_writer_are_passed_on() {
    let mut printer = TextPrinter::new(Full);
    let large = encode(|packet| packet.bytes(fields::trace_packet::FOR_TESTING, &[7; 100_000]));
    let error = printer.packet(&large).expect_err("more than is held back");
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    printer.packet(&[]).expect("held back");
    assert_eq!(
        printer.flush().expect_err("full").kind(),
        io::ErrorKind::StorageFull
    );
}
