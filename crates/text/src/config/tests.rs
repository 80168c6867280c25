use crate::print::message_to_text;
use ferretto_proto::{Message, TraceConfig, trace_config};

use super::{ConfigError, ROOT, Unknown, load, read};

fn parse(name: &str, text: &[u8]) -> Result<Vec<u8>, ConfigError> {
    read(name, text, Unknown::Refuse).map(|parsed| parsed.bytes)
}

fn config(text: &str) -> TraceConfig {
    let bytes = parse("test.pbtxt", text.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    TraceConfig::decode_from_slice(&bytes).expect("what was encoded decodes")
}

/// Returns the first line of each error, `line:column: message`.
fn errors(text: &str) -> Vec<String> {
    let error = parse("f", text.as_bytes()).expect_err("not a config");
    let ConfigError::Text(errors) = error else {
        panic!("{error}")
    };
    let shown = |e: &super::Diagnostic| format!("{}:{}: {}", e.line, e.column, e.message);
    errors.iter().map(shown).collect()
}

#[track_caller]
fn fails(text: &str, expected: &str) {
    assert_eq!(errors(text), [expected], "{text:?}");
}

/// The encodings are the same, and not empty.
#[track_caller]
fn same(text: &str, plain: &str) {
    let parsed = |text: &str| parse("f", text.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
    assert!(!parsed(plain).is_empty());
    assert_eq!(parsed(text), parsed(plain), "{text:?}");
}

#[test]
fn cli_030_a_config_as_people_write_it() {
    let config = config(
        r#"
        # One buffer for everything.
        buffers: {
          size_kb: 63488
          fill_policy: DISCARD
        }
        data_sources: {
          config {
            name: "linux.ftrace"
            ftrace_config {
              ftrace_events: "sched/sched_switch"  # the important one
              ftrace_events: "sched/sched_waking"
              compact_sched { enabled: true }
            }
          }
        }
        duration_ms: 10000
        "#,
    );
    assert_eq!(config.duration_ms, Some(10_000));
    assert_eq!(config.buffers[0].size_kb, Some(63_488));
    assert_eq!(
        config.buffers[0].fill_policy,
        Some(trace_config::buffer_config::FillPolicy::DISCARD)
    );
    let source = config.data_sources[0].config.as_option().expect("a config");
    assert_eq!(source.name.as_deref(), Some(&b"linux.ftrace"[..]));
    assert!(source.ftrace_config.is_some());
}

#[test]
fn an_empty_text_is_an_empty_config() {
    for text in ["", "  \n\t", "# nothing", "\u{feff}# nothing\n"] {
        assert_eq!(parse("f", text.as_bytes()).expect("empty"), b"");
    }
}

#[test]
fn nested_messages_may_be_written_in_all_forms() {
    let plain = "buffers { size_kb: 1 }";
    for text in [
        "buffers{size_kb:1}",
        "buffers: {size_kb: 1;};",
        "buffers < size_kb: 1, >",
        "buffers:<size_kb 1>",
        "buffers: [{size_kb: 1}]",
        "buffers [ < size_kb:: 1 > ]",
        "buffers\n#comment {\n{\nsize_kb#comment\n:\n1}",
    ] {
        same(text, plain);
    }
    same(
        "buffers: [{size_kb: 1}, {}], buffers: []",
        "buffers { size_kb: 1 } buffers {}",
    );
}

#[test]
fn cli_031_strings_are_joined_and_unescaped() {
    let name = |text: &str| config(&format!("unique_session_name: {text}")).unique_session_name;
    for (text, expected) in [
        (r#""plain""#, &b"plain"[..]),
        (r#"'single "quoted"'"#, b"single \"quoted\""),
        ("\"one \" # comment\n 'two'\"three\"", b"one twothree"),
        (
            r#""\a\b\f\n\r\t\v\\\'\"\?""#,
            b"\x07\x08\x0c\n\r\t\x0b\\'\"?",
        ),
        (r#""\377\1\018""#, b"\xff\x01\x018"),
        (r#""\101""#, b"A"),
        // More than upstream takes.
        (r#""\x41""#, b"A"),
        (r#""\xff\x4q""#, b"\xff\x04q"),
        (r#""\u00e9\U0001F600""#, "\u{e9}\u{1F600}".as_bytes()),
        ("\"over\nlines # no comment\"", b"over\nlines # no comment"),
        (r#""""#, b""),
    ] {
        assert_eq!(name(text).as_deref(), Some(expected), "{text}");
    }
    let bytes = parse("f", b"unique_session_name: \"\xff\xfe\"").expect("any bytes");
    assert!(bytes.ends_with(b"\x02\xff\xfe"));
}

#[test]
fn integers_have_several_forms() {
    same("duration_ms: 0xFf", "duration_ms: 255");
    same("duration_ms: 010", "duration_ms: 10");
    same("duration_ms: 5#comment", "duration_ms: 5");
    same(
        "priority_boost { priority: - 5 }",
        "priority_boost { priority: -5 }",
    );
    assert_eq!(config("trace_uuid_lsb: -1").trace_uuid_lsb, Some(-1));
    assert_eq!(
        config("trace_uuid_msb: 9223372036854775807").trace_uuid_msb,
        Some(i64::MAX)
    );
}

#[test]
fn booleans_and_enums_may_be_numbers() {
    same("write_into_file: 1", "write_into_file: true");
    same("write_into_file: t", "write_into_file: true");
    same("write_into_file: False", "write_into_file: false");
    same(
        "buffers { fill_policy: 2 }",
        "buffers { fill_policy: DISCARD }",
    );
}

#[test]
fn values_that_upstream_truncates_are_truncated_with_a_warning() {
    for (text, same_as, warning) in [
        (
            "duration_ms: 4294967297",
            "duration_ms: 1",
            "\"duration_ms\": 4294967297 does not fit the field and becomes 1",
        ),
        (
            "duration_ms: -1",
            "duration_ms: 4294967295",
            "\"duration_ms\": -1 does not fit the field and becomes 4294967295",
        ),
        (
            "duration_ms: 1.9",
            "duration_ms: 1",
            "\"duration_ms\": the field is an integer, so this becomes 1",
        ),
    ] {
        same(text, same_as);
        let parsed = read("f", text.as_bytes(), Unknown::Refuse).expect("a config");
        let warnings: Vec<&str> = parsed.warnings.iter().map(|w| w.message.as_str()).collect();
        assert_eq!(warnings, [warning]);
    }
    let parsed = read("f", b"duration_ms: 4294967295", Unknown::Refuse).expect("a config");
    assert_eq!(parsed.warnings, []);
}

#[test]
fn cli_030_misspelt_fields_get_a_suggestion() {
    fails(
        "durtion_ms: 1",
        r#"1:1: no field "durtion_ms" in TraceConfig; did you mean "duration_ms"?"#,
    );
    fails(
        "\n\n  Duration_MS: 1",
        r#"3:3: no field "Duration_MS" in TraceConfig; did you mean "duration_ms"?"#,
    );
    fails(
        "buffers {\n\tsize_kbs: 1\n}",
        r#"2:2: no field "size_kbs" in BufferConfig; did you mean "size_kb"?"#,
    );
    fails(
        "duration: 5",
        r#"1:1: no field "duration" in TraceConfig; did you mean "duration_ms"?"#,
    );
    fails("qqqqqqq: 1", r#"1:1: no field "qqqqqqq" in TraceConfig"#);
}

#[test]
fn misplaced_fields_are_found() {
    fails(
        r#"ftrace_events: "sched/sched_switch""#,
        r#"1:1: no field "ftrace_events" in TraceConfig; there is one in data_sources.config.ftrace_config"#,
    );
    fails(
        "data_sources { config { ftrace_config { size_kb: 3 } } }",
        r#"1:41: no field "size_kb" in FtraceConfig; there is one in buffers"#,
    );
    fails(
        "data_sources { config { flush_period_ms: 3 } }",
        r#"1:25: no field "flush_period_ms" in DataSourceConfig; there is one in TraceConfig, outside of this"#,
    );
}

#[test]
fn all_wrong_fields_are_reported_and_their_values_skipped() {
    let text =
        "aaa { b: [1, {c: '}'}] d < e: -1 > }\nbbb: 'x' \"y\"\nduration_ms: yes\nccc: -2 ddd: inf";
    let lines: Vec<String> = errors(text).iter().map(|e| e[..3].to_owned()).collect();
    assert_eq!(lines, ["1:1", "2:1", "3:1", "4:1", "4:9"]);
}

#[test]
fn errors_of_wrong_types_name_the_expected_type() {
    fails(
        "duration_ms: \"10\"",
        r#"1:14: "duration_ms" takes an integer, found a string"#,
    );
    fails(
        "duration_ms: ten",
        r#"1:14: "duration_ms" takes an integer, found ten"#,
    );
    fails(
        "duration_ms: 1e3",
        r#"1:14: "duration_ms" takes an integer, found 1e3"#,
    );
    fails(
        "duration_ms { }",
        r#"1:13: "duration_ms" takes an integer, found {"#,
    );
    fails(
        "duration_ms: 10s",
        r#"1:14: 10s is not a number; "duration_ms" takes no unit, write 10"#,
    );
    fails("duration_ms: 1_000", "1:14: 1_000 is not a number");
    fails("duration_ms: 0x", "1:14: 0x is not a number");
    fails("duration_ms: 1.2.3", "1:14: 1.2.3 is not a number");
    fails(
        "duration_ms: 99999999999999999999",
        "1:14: 99999999999999999999 is more than any field can hold",
    );
    fails(
        "write_into_file: yes",
        r#"1:18: "write_into_file" takes true or false, found yes"#,
    );
    fails(
        "write_into_file: 2",
        r#"1:18: "write_into_file" takes true or false, found 2"#,
    );
    fails(
        "write_into_file: -true",
        r#"1:18: "write_into_file" takes true or false, found -true"#,
    );
    fails(
        "output_path: /tmp/x",
        r#"1:14: "output_path" takes a string in quotes, found /"#,
    );
    fails(
        "buffers: 3",
        r#"1:10: "buffers" takes a BufferConfig, written as buffers { ... }, found 3"#,
    );
    fails(
        "buffers { fill_policy: \"DISCARD\" }",
        r#"1:24: "fill_policy" takes a name of FillPolicy, such as DISCARD, found a string"#,
    );
    fails(
        "buffers { fill_policy: DISCRAD }",
        r#"1:24: no value DISCRAD in FillPolicy, the type of "fill_policy"; did you mean DISCARD?"#,
    );
    fails(
        "buffers { fill_policy: X }",
        r#"1:24: no value X in FillPolicy, the type of "fill_policy"; it is one of UNSPECIFIED, RING_BUFFER, DISCARD"#,
    );
}

#[test]
fn cli_032_a_field_given_twice_names_the_first() {
    fails(
        "duration_ms: 1\nduration_ms: 2",
        r#"2:1: "duration_ms" is given a second time; the first is in line 1"#,
    );
    same("buffers {} buffers {}", "buffers: [{}, {}]");
    fails(
        "duration_ms: [1]",
        r#"1:14: "duration_ms" takes one value, not a list"#,
    );
}

#[test]
fn cli_032_unbalanced_brackets_are_shown_where_they_open() {
    fails("buffers {\n  size_kb: 1\n", "1:9: this is never closed");
    fails(
        "data_sources {\n config <\n}",
        "3:1: nothing is open that this could close",
    );
    fails(
        "duration_ms: 1 }",
        "1:16: nothing is open that this could close",
    );
    fails("buffers: [{}, {}", "1:10: this is never closed");
    fails(
        "buffers: [{} {}]",
        "1:14: expected , or ] in a list, found {",
    );
    fails(
        "builtin_data_sources { disable_clock_snapshotting: ",
        r#"1:24: "disable_clock_snapshotting" has no value; it takes true or false"#,
    );
    assert_eq!(
        errors("unknwon_thing {{{ [").last().map(String::as_str),
        Some("1:19: this is never closed")
    );
    assert_eq!(
        errors("unknwon_thing {]").last().map(String::as_str),
        Some("1:16: nothing is open that this could close")
    );
}

#[test]
fn invalid_tokens_end_parsing() {
    fails("duration_ms = 5", "1:13: unexpected character '='");
    fails("duration_ms: 5 \u{e9}", "1:16: unexpected character 'é'");
    fails(
        "output_path: \"abc\nduration_ms: 5",
        "1:14: this string is never closed",
    );
    fails("output_path: \"abc\\", "1:14: this string is never closed");
    fails(
        r#"output_path: "a\q""#,
        r"1:16: \q is not an escape; write \\ for a backslash",
    );
    fails(r#"output_path: "a\777""#, r"1:16: \777 is more than \377");
    fails(r#"output_path: "\400""#, r"1:15: \400 is more than \377");
    fails(r#"output_path: "\x""#, r"1:15: \x has no digits");
    fails(
        r#"output_path: "\ud800""#,
        r"1:15: \ud800 is not a Unicode character",
    );
    fails(
        r#"output_path: "\u12""#,
        r"1:15: \u12 is not a Unicode character",
    );
    fails("duration_ms: -", r#"1:14: expected a number after this"#);
    fails(
        "duration_ms:",
        r#"1:1: "duration_ms" has no value; it takes an integer"#,
    );
    fails("5: 1", "1:1: expected a field name, found 5");
    fails(
        "\"duration_ms\": 1",
        "1:1: expected a field name, found a string",
    );
    fails(
        "[a.b]: 1",
        r#"1:1: no extension "a.b": there are none in configs"#,
    );
    fails("[a.b", "1:1: expected the name of an extension and ]");
}

#[test]
fn cli_030_lossy_reading_drops_what_is_unknown_and_nothing_else() {
    let text = br#"nope { a: 1 b { c: "}" } } duration_ms: 5 [x.y] { z: 1 } buffers { fill_policy: NEW size_kb: 1 }"#;
    let parsed = read("f", text, Unknown::Drop).expect("a config");
    assert_eq!(
        parsed.bytes,
        parse("f", b"duration_ms: 5 buffers { size_kb: 1 }").expect("a config")
    );
    for wrong in [
        "duration_ms: 'x'",
        "duration_ms: 1 duration_ms: 1",
        "nope {",
    ] {
        assert!(
            read("f", wrong.as_bytes(), Unknown::Drop).is_err(),
            "{wrong}"
        );
    }
}

#[test]
fn cli_030_an_error_shows_row_column_and_line() {
    let error = parse("my.pbtxt", b"buffers {}\n\tduration_m: 5 # five\n").expect_err("misspelt");
    assert_eq!(
        error.to_string(),
        "my.pbtxt:2:2: no field \"duration_m\" in TraceConfig; did you mean \"duration_ms\"?\n  \
         \tduration_m: 5 # five\n  \t^~~~~~~~~~"
    );
    let error = parse("f", b"x\x1b[31m: 5").expect_err("an escape sequence");
    assert!(!error.to_string().contains('\x1b'), "{error}");
    let long = format!(
        "{}durtion_ms: 5 {}",
        "buffers {} ".repeat(1000),
        "buffers {} ".repeat(1000)
    );
    let error = parse("f", long.as_bytes())
        .expect_err("misspelt")
        .to_string();
    assert!(
        error.len() < 500 && error.contains("\n  ") && error.contains("durtion_ms: 5"),
        "{error}"
    );
}

#[test]
fn many_errors_are_truncated() {
    let text = "nope: 1\n".repeat(5000);
    let error = parse("f", text.as_bytes())
        .expect_err("misspelt")
        .to_string();
    assert_eq!(error.lines().count(), 31, "{error}");
    assert!(error.ends_with("90 more errors"), "{error}");
}

#[test]
fn cli_032_deep_nesting_is_refused() {
    let deep = "trigger_config { ".repeat(50_000);
    assert!(parse("f", deep.as_bytes()).is_err());
    let brackets = format!("nope {}", "{".repeat(500_000));
    assert!(read("f", brackets.as_bytes(), Unknown::Drop).is_err());
}

#[test]
fn printed_configs_parse_to_the_same_bytes() {
    let text = r#"
        buffers { size_kb: 4096 fill_policy: DISCARD name: "it's \"q\" \\ \377" }
        data_sources { config { name: "linux.sys_stats" sys_stats_config {
            meminfo_period_ms: 250 meminfo_counters: [MEMINFO_MEM_FREE, MEMINFO_CACHED] } }
            producer_name_filter: "a" producer_name_filter: "\u00e9\n" }
        trace_uuid_msb: -7
        write_into_file: false
    "#;
    let bytes = parse("f", text.as_bytes()).expect("a config");
    let printed = message_to_text(ROOT, &bytes).expect("known");
    assert_eq!(parse("printed", &printed).expect("a config"), bytes);
}

#[test]
fn any_bytes_are_a_config_or_an_error() {
    let good = br#"buffers { size_kb: 0x10 } data_sources: [{config<name:'a' "b">}] duration_ms: -1.5 # end"#;
    for end in 0..good.len() {
        let _ = parse("f", &good[..end]);
        for byte in [b'{', b'}', b'"', b'-', b'[', b'\\', b'#', 0, 0xff] {
            let mut text = good.to_vec();
            text[end] = byte;
            let _ = read("f", &text, Unknown::Drop).map_err(|e| e.to_string());
            let _ = parse("f", &text).map_err(|e| e.to_string());
        }
    }
}

#[test]
fn either_form_is_recognised() {
    let text = b"buffers { size_kb: 4096 } duration_ms: 5 data_sources { config { name: 'x' } }";
    let binary = parse("f", text).expect("a config");
    let loaded = |bytes: &[u8]| load("f", bytes, Unknown::Refuse).map(|parsed| parsed.bytes);
    assert_eq!(loaded(text).expect("text"), binary);
    assert_eq!(loaded(&binary).expect("binary"), binary);
    assert_eq!(loaded(b"").expect("empty"), b"");

    let misspelt = loaded(b"durtion_ms: 5")
        .expect_err("text that is wrong")
        .to_string();
    assert!(misspelt.starts_with("f:1:1: no field"), "{misspelt}");
    let cut = loaded(&binary[..binary.len() - 1])
        .expect_err("cut short")
        .to_string();
    assert!(
        cut.starts_with("f is neither text nor an encoded TraceConfig: "),
        "{cut}"
    );
    assert!(loaded(&[0xff; 64]).is_err());
}

#[test]
fn packed_numbers_are_written_as_one_byte_string() {
    let text = "packet { ftrace_events { cpu: 1 compact_sched {
        switch_timestamp: 300 switch_prev_state: -1 switch_timestamp: [1, 2] } } }";
    let read = super::read_message(
        "perfetto.protos.Trace",
        "f",
        text.as_bytes(),
        Unknown::Refuse,
    );
    let bytes = read.expect("a type").expect("a trace").bytes;
    let mut packed = vec![0x0a, 4, 0xac, 2, 1, 2, 0x12, 10];
    packed.extend([0xff; 9]);
    packed.push(1);
    let at = bytes.windows(packed.len()).position(|part| part == packed);
    assert!(at.is_some(), "{bytes:x?}");
}
