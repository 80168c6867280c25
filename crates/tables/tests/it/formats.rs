//! Formats other than Perfetto's, and files that contain others.

use std::io::Write;

use crate::common::{args, encode, import_bytes, rows, stat};
use ferretto_tables::{Format, ImportError, Options, Trace};
use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder};

fn error(bytes: &[u8]) -> String {
    match Trace::read(bytes, &Options::default()) {
        Ok(_) => panic!("the file is not a trace"),
        Err(error) => error.to_string(),
    }
}

/// Returns a trace with one instant of this name.
fn proto(name: &str) -> Vec<u8> {
    encode(&format!(
        "packet {{ timestamp: 5 trusted_packet_sequence_id: 1
            track_event {{ type: TYPE_INSTANT track_uuid: 0 name: \"{name}\" }} }}"
    ))
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Returns a frame with one uncompressed block.
fn zstd(bytes: &[u8]) -> Vec<u8> {
    let block = (bytes.len() as u32) << 3 | 1;
    let head = [
        0x28,
        0xb5,
        0x2f,
        0xfd,
        0x20,
        u8::try_from(bytes.len()).unwrap(),
    ];
    [&head[..], &block.to_le_bytes()[..3], bytes].concat()
}

/// Returns an archive. Members with `true` are deflated, with their sizes in a trailing descriptor.
fn zip(members: &[(&str, &[u8], bool)]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (name, content, is_deflated) in members {
        let mut header = [0; 30];
        header[..4].copy_from_slice(b"PK\x03\x04");
        header[26] = name.len() as u8;
        let mut behind = Vec::new();
        let stored = if *is_deflated {
            header[6] = 8;
            header[8] = 8;
            let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(content).unwrap();
            behind.extend(b"PK\x07\x08");
            behind.extend([0; 12]);
            encoder.finish().unwrap()
        } else {
            header[18..22].copy_from_slice(&(content.len() as u32).to_le_bytes());
            content.to_vec()
        };
        archive.extend(header);
        archive.extend(name.as_bytes());
        archive.extend(stored);
        archive.extend(behind);
    }
    archive.extend(b"PK\x01\x02");
    archive.extend([0; 42]);
    archive
}

fn tar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (name, content) in members {
        let mut header = [0; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        let size = format!("{:011o}", content.len());
        header[124..135].copy_from_slice(size.as_bytes());
        header[148..156].copy_from_slice(b"        ");
        header[156] = b'0';
        header[257..265].copy_from_slice(b"ustar\x0000");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        archive.extend(header);
        archive.extend(*content);
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
    archive.resize(archive.len() + 1024, 0);
    archive
}

#[test]
fn query_028_a_file_of_no_known_format_is_refused() {
    assert!(error(b"of no known format").contains("(ERR:fmt)"));
    assert!(matches!(
        Trace::read(&b"?"[..], &Options::default()),
        Err(ImportError::UnknownFormat { file: None })
    ));
}

#[test]
fn query_140_nested_files_are_read() {
    let (a, b) = (proto("a"), proto("b"));
    let symbols = encode(r#"packet { module_symbols { path: "/x" } }"#);
    let names = |bytes: &[u8]| rows(&import_bytes(bytes), "slice", "name");
    assert_eq!(names(&gzip(&a)), ["a"]);
    assert_eq!(names(&zstd(&a)), ["a"]);
    assert_eq!(names(&gzip(&gzip(&a))), ["a"]);
    assert_eq!(names(&[&a[..], &b].concat()), ["a", "b"]);
    for is_deflated in [false, true] {
        let members = [("a", &a[..], is_deflated), ("d/b", &b[..], is_deflated)];
        assert_eq!(names(&zip(&members)), ["a", "b"], "deflated: {is_deflated}");
    }
    let trace = import_bytes(&tar(&[("s", &symbols), ("a.gz", &gzip(&a)), ("b", &b)]));
    assert_eq!(rows(&trace, "slice", "name"), ["b", "a"]);
    assert_eq!(
        rows(
            &trace,
            "trace_file",
            "parent_id name trace_type is_container processing_order"
        ),
        [
            "NULL NULL tar 1 0",
            "0 s symbols 0 4",
            "0 a.gz gzip 1 2",
            "0 b proto 0 1",
            "2 a.gz proto 0 3"
        ]
    );
    assert_eq!(stat(&trace, "stackprofile_invalid_mapping_id"), 1);
    assert_eq!(Format::detect(&gzip(&a)), Some(Format::Gzip));
}

#[test]
fn query_141_hidden_members_are_left_out_and_unknown_ones_refused() {
    let a = proto("a");
    let hidden = [
        (".x", &b"?"[..]),
        ("__MACOSX/a", b"?"),
        ("d/.y", b"?"),
        ("a", &a),
    ];
    let trace = import_bytes(&tar(&hidden));
    assert_eq!(rows(&trace, "slice", "name"), ["a"]);
    let error = error(&tar(&[("a", &a), ("what", b"?")]));
    assert!(
        error.contains("(ERR:fmt)") && error.ends_with("what"),
        "{error}"
    );
}

#[test]
fn query_142_json_events_become_slices_counters_and_names() {
    let trace = import_bytes(
        br#"[
        {"ph":"M","name":"process_name","pid":1,"args":{"name":"app"}},
        {"ph":"M","name":"thread_name","pid":1,"tid":2,"args":{"name":"worker"}},
        {"ph":"B","name":"a","cat":"c","pid":1,"tid":2,"ts":1,"args":{"x":{"y":[1,"two",],},}},
        {"ph":"X","name":"b","pid":1,"tid":2,"ts":1.5,"dur":0.25,"tts":3,"tdur":4},
        {"ph":"E","pid":1,"tid":2,"ts":"3"},
        {"ph":"X","pid":1,"tid":3,"ts":10,"dur":10},
        {"ph":"X","name":"over","pid":1,"tid":3,"ts":15,"dur":10},
        {"ph":"C","name":"mem","pid":1,"ts":4,"args":{"rss":5,"swap":"1.5"}},
        {"ph":"i","name":"now","pid":1,"tid":2,"ts":5,"s":"p"},
        {"ph":"b","name":"one","cat":"io","id":"0x1","pid":1,"tid":2,"ts":6},
        {"ph":"b","name":"one","text":"two
lines","cat":"io","id":"0x2","pid":1,"tid":2,"ts":7},
        {"ph":"e","name":"one","cat":"io","id":"0x1","pid":1,"tid":2,"ts":8},
        {"ph":"T","name":"Running","pid":1,"tid":2,"ts":9,"dur":2,"args":{"cpu":3}},
        {"no":"phase"},
        {},"#,
    );
    assert_eq!(
        rows(&trace, "slice", "ts dur name depth thread_ts thread_dur"),
        [
            "1000 2000 a 0 NULL NULL",
            "1500 250 b 1 3000 4000",
            "5000 0 now 0 NULL NULL",
            "6000 2000 one 0 NULL NULL",
            "7000 -1 one 0 NULL NULL",
            "10000 10000 [No name] 0 NULL NULL",
            "15000 10000 over 0 NULL NULL"
        ]
    );
    let set = trace.tables().slice.arg_set_id().get(0);
    assert_eq!(args(&trace, set), ["args.x.y[0]=1", "args.x.y[1]=\"two\""]);
    let tracks = rows(&trace, "track", "type name");
    assert_eq!(
        tracks
            .iter()
            .filter(|track| *track == "legacy_async_global_slice one")
            .count(),
        2
    );
    assert!(
        tracks.contains(&"thread_overlapping_slice NULL".to_owned()),
        "{tracks:?}"
    );
    assert!(tracks.contains(&"json_counter mem rss".to_owned()));
    assert!(tracks.contains(&"json_counter mem swap".to_owned()));
    assert_eq!(rows(&trace, "counter", "ts value"), ["4000 5", "4000 1.5"]);
    assert_eq!(rows(&trace, "process", "pid name")[1..], ["1 app"]);
    assert!(rows(&trace, "thread", "tid name").contains(&"2 worker".to_owned()));
    assert_eq!(
        rows(&trace, "thread_state", "ts dur state"),
        ["9000 2000 Running"]
    );
    assert_eq!(rows(&trace, "sched_slice", "ts dur ucpu"), ["9000 2000 3"]);
    assert_eq!(stat(&trace, "slice_spill_overlapping_complete_event"), 1);
    assert_eq!(stat(&trace, "json_tokenizer_failure"), 1);
    let error = error(br#"{"traceEvents":[{"ph":"i","ts":1}"#);
    assert!(error.contains("(ERR:tp-corrupt)"), "{error}");
}

#[test]
fn json_events_of_one_time_end_before_others_begin() {
    let trace = import_bytes(
        br#"{"metadata":{"k":[1,"x"],"n":2.0},"displayTimeUnit":"ns","traceEvents":[
        {"ph":"B","name":"first","pid":1,"ts":1},
        {"ph":"X","name":"inner","pid":1,"ts":5,"dur":1},
        {"ph":"X","name":"outer","pid":1,"ts":5,"dur":3},
        {"ph":"E","pid":1,"ts":5},
        {"ph":"s","name":"f","cat":"c","id":"a","pid":1,"ts":5.5},
        {"ph":"X","name":"to","pid":2,"ts":9,"dur":1},
        {"ph":"f","name":"f","cat":"c","id":10,"bp":"e","pid":2,"ts":9},
        {"ph":"i","name":"named","pid":"the process","tid":"the thread","ts":10}]}"#,
    );
    assert_eq!(
        rows(&trace, "slice", "name ts dur depth"),
        [
            "first 1000 4000 0",
            "outer 5000 3000 0",
            "inner 5000 1000 1",
            "to 9000 1000 0",
            "named 10000 0 0"
        ]
    );
    assert_eq!(rows(&trace, "flow", "slice_out slice_in"), ["2 3"]);
    let facts = rows(&trace, "metadata", "name int_value str_value");
    assert!(facts.contains(&"json_metadata.k NULL [1,\"x\"]".to_owned()));
    assert!(facts.contains(&"json_metadata.n 2 NULL".to_owned()));
    assert!(facts.contains(&"trace_type NULL json".to_owned()));
    assert_eq!(stat(&trace, "json_display_time_unit"), 1);
    assert!(rows(&trace, "process", "name").contains(&"the process".to_owned()));
    assert!(rows(&trace, "thread", "name").contains(&"the thread".to_owned()));
}

#[test]
fn query_027_packets_in_compressed_ones_are_those_without() {
    let packets = crate::common::encode(
        "packet { trusted_packet_sequence_id: 1 timestamp: 1 track_event { type: TYPE_INSTANT track_uuid: 9 name: \"a\" } }
         packet { trusted_packet_sequence_id: 1 timestamp: 2 track_event { type: TYPE_INSTANT track_uuid: 9 name: \"b\" } }",
    );
    let plain = rows(&import_bytes(&packets), "slice", "ts name");
    assert_eq!(plain, ["1 a", "2 b"]);
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), Compression::default());
    zlib.write_all(&packets).unwrap();
    for (field, content) in [(50, zlib.finish().unwrap()), (133, zstd(&packets))] {
        let trace = ferretto_wire::encode(|trace| {
            trace.nested(1, |packet| packet.bytes(field, &content));
        });
        assert_eq!(rows(&import_bytes(&trace), "slice", "ts name"), plain);
    }
}

#[test]
fn query_144_callstacks_of_other_tools_are_callsites() {
    let trace = import_bytes(b"# c\nmain;work 3\nmain;rest 2\nmain;work;x 0\nmain 1\nbroken");
    assert_eq!(
        rows(&trace, "aggregate_profile", "scope sample_type_type"),
        ["collapsed_stack_file samples"]
    );
    assert_eq!(
        rows(&trace, "aggregate_sample", "callsite_id value"),
        ["1 3", "2 2", "0 1"]
    );
    assert_eq!(
        rows(&trace, "stack_profile_frame", "name"),
        ["main", "work", "rest"]
    );

    let text =
        b"app 5/6 [001] 2.000001: cycles:\n\t10 work+0x1 (/bin/app)\n\t20 main (/bin/app)\n\n\
        app 7 1.500000: cycles:\n\t20 main (/bin/app)\n\n";
    let trace = import_bytes(text);
    assert_eq!(
        rows(&trace, "profiler_sample", "ts source callsite_id"),
        ["1500000000 perf_text 0", "2000001000 perf_text 1"]
    );
    assert_eq!(
        rows(&trace, "stack_profile_callsite", "depth parent_id frame_id"),
        ["0 NULL 0", "1 0 1"]
    );
    assert_eq!(rows(&trace, "stack_profile_mapping", "name"), ["/bin/app"]);
    assert!(rows(&trace, "thread", "tid name").contains(&"6 app".to_owned()));
}

/// Returns a report of simpleperf with these records, and the end.
fn simpleperf(records: &[Vec<u8>]) -> Vec<u8> {
    let mut report = b"SIMPLEPERF\x01\0".to_vec();
    for record in records {
        report.extend((record.len() as u32).to_le_bytes());
        report.extend(record);
    }
    report.extend([0; 4]);
    report
}

#[test]
fn a_report_of_simpleperf_has_samples_with_names_from_files_behind_them() {
    use ferretto_wire::encode;
    let sample = |time: u64, frames: &[(u64, u64, i64)]| {
        encode(|record| {
            record.nested(1, |sample| {
                sample.varint(1, time);
                sample.varint(2, 12);
                for (address, file, symbol) in frames {
                    sample.nested(3, |frame| {
                        frame.varint(1, *address);
                        frame.varint(2, *file);
                        frame.varint(3, symbol.cast_unsigned());
                    });
                }
            });
        })
    };
    let file = encode(|record| {
        record.nested(3, |file| {
            file.varint(1, 1);
            file.bytes(2, b"/lib/a.so");
            file.bytes(3, b"malloc");
            file.bytes(3, b"main");
        });
    });
    let thread = encode(|record| {
        record.nested(4, |thread| {
            thread.varint(1, 12);
            thread.varint(2, 7);
            thread.bytes(3, b"worker");
        });
    });
    let records = [
        sample(2_000, &[(16, 1, 0), (32, 1, 1)]),
        sample(1_000, &[(48, 1, -1), (32, 1, 1)]),
        sample(3_000, &[(16, 9, 0)]),
        thread,
        file,
    ];
    let report = simpleperf(&records);
    let trace = import_bytes(&report);
    assert_eq!(
        rows(&trace, "profiler_sample", "ts source callsite_id"),
        ["1000 simpleperf 1", "2000 simpleperf 2"]
    );
    assert_eq!(
        rows(&trace, "stack_profile_frame", "name rel_pc"),
        ["main 32", "NULL 48", "malloc 16"]
    );
    assert_eq!(rows(&trace, "stack_profile_mapping", "name"), ["/lib/a.so"]);
    assert!(rows(&trace, "thread", "tid name").contains(&"12 worker".to_owned()));
    assert_eq!(
        rows(&trace, "trace_file", "trace_type"),
        ["simpleperf_proto"]
    );
    // The sample in a file without a record.
    assert_eq!(stat(&trace, "simpleperf_missing_file_mapping"), 1);
    // A report can be empty, and what is cut or of another version is refused.
    assert!(rows(&import_bytes(&simpleperf(&[])), "profiler_sample", "ts").is_empty());
    for end in [10, 11, 13, 20, report.len() - 1] {
        assert!(error(&report[..end]).contains("is missing"), "{end}");
    }
    let mut other = report.clone();
    other[10] = 2;
    assert!(error(&other).contains("version 2"));
    other = report[..12].to_vec();
    other.extend([0xff; 4]);
    assert!(error(&other).contains("a record of 4294967295 bytes"));
}

#[test]
fn a_file_of_tables_is_named_with_its_readers() {
    for (head, reader) in [
        (&b"SQLite format 3\0"[..], "sqlite3"),
        (b"ARROW1\0\0", "Arrow"),
        (b"PAR1", "Parquet"),
    ] {
        let error = error(head);
        assert!(
            error.contains("(ERR:fmt)") && error.contains(reader),
            "{error}"
        );
    }
}

#[test]
fn a_profile_of_pprof_is_counted_by_callstack() {
    use ferretto_wire::encode;
    let bytes = encode(|profile| {
        profile.nested(1, |kind| {
            kind.varint(1, 1);
            kind.varint(2, 2);
        });
        for (id, name) in [(1, 3), (2, 4)] {
            profile.nested(5, |function| {
                function.varint(1, id);
                function.varint(2, name);
            });
            profile.nested(4, |location| {
                location.varint(1, id);
                location.varint(3, 4096 + id);
                location.nested(4, |line| line.varint(1, id));
            });
        }
        profile.nested(2, |sample| {
            sample.bytes(1, &[2, 1]);
            sample.bytes(2, &[77]);
        });
        for text in ["", "cpu", "ns", "main", "work"] {
            profile.string(6, text);
        }
    });
    for bytes in [bytes.clone(), gzip(&bytes)] {
        let trace = import_bytes(&bytes);
        assert_eq!(
            rows(&trace, "aggregate_profile", "name sample_type_unit"),
            ["pprof cpu ns"]
        );
        assert_eq!(
            rows(&trace, "aggregate_sample", "callsite_id value"),
            ["1 77"]
        );
        assert_eq!(
            rows(&trace, "stack_profile_callsite", "depth frame_id"),
            ["0 0", "1 1"]
        );
        assert_eq!(
            rows(&trace, "stack_profile_frame", "name rel_pc"),
            ["main 4097", "work 4098"]
        );
    }
}

/// Kernel events as text: two threads on one CPU.
const EVENTS: &str = "\
  a-1 ( 1) [000] d..2 1.000001: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 next_prio=110
  b-2 ( 2) [000] .... 1.000002: tracing_mark_write: B|2|work
  b-2 ( 2) [000] d..2 1.000003: sched_waking: comm=a pid=1 prio=120 target_cpu=000
  b-2 ( 2) [000] .... 1.000004: tracing_mark_write: E|2
  b-2 ( 2) [000] d..2 1.000005: sched_switch: prev_comm=b prev_pid=2 prev_prio=110 prev_state=R+ ==> next_comm=a next_pid=1 next_prio=120
  <idle>-0 [001] .... 1.000006: cpu_frequency: state=2000 cpu_id=1
";

#[test]
fn calls_of_strace_are_slices_of_their_threads() {
    let text = "7 1700000052.000001 openat(AT_FDCWD, \"/a\", O_RDONLY) = -1 ENOENT (No such file)\n\
        7 1700000052.000002 futex(0x7f, FUTEX_WAIT, <unfinished ...>\n\
        8 1700000052.000003 close(3)   = 0\n\
        7 1700000052.000005 <... futex resumed>) = 0\n\
        --- SIGCHLD {si_signo=SIGCHLD} ---\n\
        8 14:32:01 read(3) = 0\n\
        1700000052.000009 read(3) = 0\n";
    let trace = import_bytes(text.as_bytes());
    assert_eq!(
        rows(&trace, "slice", "ts dur name category"),
        [
            "1700000052000001000 0 openat strace",
            "1700000052000002000 3000 futex strace",
            "1700000052000003000 0 close strace"
        ]
    );
    let set = crate::common::arg_set(&trace.tables().slice, "arg_set_id", 0);
    assert_eq!(
        crate::common::args(&trace, set),
        [
            r#"args="AT_FDCWD, \"/a\", O_RDONLY""#,
            r#"ret="-1 ENOENT (No such file)""#
        ]
    );
    assert_eq!(rows(&trace, "thread", "tid")[1..], ["7", "8"]);
    assert_eq!(rows(&trace, "trace_file", "trace_type"), ["strace"]);
    assert_eq!(stat(&trace, "strace_parse_failure"), 1);
    assert_eq!(stat(&trace, "strace_unsupported_timestamp_format"), 1);
    assert_eq!(stat(&trace, "strace_missing_pid"), 1);

    // The trace that an import makes of the file has the same slices.
    let mut packets = Vec::new();
    let file = std::io::Cursor::new(text.as_bytes());
    let report = ferretto_foreign::import(file, &Default::default(), &mut packets).unwrap();
    assert_eq!((report.events, report.is_damaged), (4, true));
    let losses: Vec<String> = report.losses.iter().map(|it| format!("{it:?}")).collect();
    assert_eq!(
        losses,
        [
            r#"("calls without a date, as without the option -ttt (the first is line 6)", 1)"#,
            r#"("calls without a thread, as without the option -f (the first is line 7)", 1)"#,
            r#"("signals and exits", 1)"#
        ]
    );
    let converted = import_bytes(&packets);
    let slices = |trace| rows(trace, "slice", "ts dur name category");
    assert_eq!(slices(&converted), slices(&trace));
}

#[test]
fn query_143_kernel_events_are_equal_in_text_html_and_json() {
    let text = format!("# tracer: nop\n#\n{EVENTS}");
    let page = format!(
        "<!DOCTYPE html>\n<html>\n<script class=\"trace-data\" type=\"application/text\">\n\
        #  TASK-PID\n{EVENTS}</script>\n"
    );
    let json = EVENTS.replace('\n', "\\n");
    let json = format!("{{\"traceEvents\":[],\"systemTraceEvents\":\"{json}\"}}");
    let converted = [&text, &page].map(|file| {
        let mut packets = Vec::new();
        let file = std::io::Cursor::new(file.as_bytes());
        let report = ferretto_foreign::import(file, &Default::default(), &mut packets).unwrap();
        assert_eq!((report.events, report.is_damaged), (6, false));
        packets
    });
    let files = [text, page, json].map(String::into_bytes);
    for file in files.iter().chain(&converted) {
        let trace = import_bytes(file);
        assert_eq!(
            rows(&trace, "sched_slice", "ts dur end_state priority ucpu"),
            ["1000001000 4000 R+ 110 0", "1000005000 -1 NULL 120 0"]
        );
        assert_eq!(
            rows(&trace, "thread_state", "ts dur state"),
            [
                "1000001000 2000 S",
                "1000001000 4000 Running",
                "1000003000 2000 R",
                "1000005000 -1 R+",
                "1000005000 -1 Running"
            ]
        );
        assert_eq!(
            rows(&trace, "slice", "ts dur name"),
            ["1000002000 2000 work"]
        );
        assert_eq!(rows(&trace, "counter", "ts value"), ["1000006000 2000"]);
        assert!(rows(&trace, "thread", "tid name").contains(&"2 b".to_owned()));
        assert_eq!(stat(&trace, "systrace_parse_failure"), 0);
    }
}

/// Any bytes give a trace or an error, without a panic or a hang.
#[test]
fn query_145_damaged_files_of_every_format_are_errors_or_traces() {
    let a = proto("a");
    let perf = b"app 5/6 [001] 2.000001: cycles:\n\t10 work (/bin/app)\n\n".to_vec();
    let json = br#"{"traceEvents":[{"ph":"B","pid":1,"ts":1,"args":{"a":[{}]}}],"metadata":{}}"#;
    let files = [
        a.clone(),
        gzip(&a),
        zstd(&a),
        zip(&[("a", &a, false), ("b", &a, true)]),
        tar(&[("a", &a), ("b", &perf)]),
        json.to_vec(),
        EVENTS.as_bytes().to_vec(),
        perf,
        b"main;work 3\nmain;rest 2\n".to_vec(),
    ];
    let options = Options {
        threads: 1,
        ..Options::default()
    };
    let mut state = 7_u64;
    for file in &files {
        for end in (0..file.len()).step_by(1 + file.len() / 60) {
            let _ = Trace::read(&file[..end], &options);
        }
        for _ in 0..150 {
            let mut file = file.clone();
            for _ in 0..3 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let at = (state >> 33) as usize % file.len();
                file[at] = (state >> 24) as u8;
            }
            let _ = Trace::read(&file[..], &options);
        }
    }
    // Nested beyond the limit of depth.
    let deep = [
        b"[{\"ph\":\"B\",\"ts\":1,\"args\":{\"a\":".to_vec(),
        vec![b'['; 1 << 20],
    ]
    .concat();
    let _ = Trace::read(&deep[..], &options);
    let mut nested = a;
    for _ in 0..20 {
        nested = gzip(&nested);
    }
    assert!(error(&nested).contains("archives"));
}
