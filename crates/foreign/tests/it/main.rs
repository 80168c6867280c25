//! Imports files of other programs and reads the traces with `ferretto-tables`.

mod json_cases;
mod perf;
mod perf_cases;
mod systrace_cases;
mod truth;
mod upstream;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Cursor, Write as _};
use std::path::PathBuf;

use ferretto_foreign::{Format, ImportError, Options, Report, import};
use ferretto_tables::Trace;

/// Returns a file of the test data.
fn data(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    fs::read(folder.join(name)).unwrap()
}

/// Imports a file into memory.
fn imported(bytes: &[u8], options: &Options) -> (Vec<u8>, Report) {
    let mut out = Vec::new();
    let report = import(Cursor::new(bytes), options, &mut out).unwrap();
    (out, report)
}

/// Reads a file of any format as tables, and asserts that it has no errors.
fn tables(bytes: &[u8]) -> Trace {
    let options = ferretto_tables::Options::default();
    let trace = Trace::read(Cursor::new(bytes.to_vec()), &options).unwrap();
    assert_eq!(trace.remarks(), [] as [String; 0]);
    trace
}

/// Returns name, category, start, duration and depth of each slice, sorted.
fn slices(trace: &Trace) -> Vec<(String, String, i64, i64, u32)> {
    let (slices, strings) = (&trace.tables().slice, trace.strings());
    let mut all: Vec<_> = (0..slices.len())
        .map(|row| {
            (
                strings.text(slices.name().get(row)).to_owned(),
                strings.text(slices.category().get(row)).to_owned(),
                slices.ts().get(row),
                slices.dur().get(row),
                slices.depth().get(row),
            )
        })
        .collect();
    all.sort();
    all
}

fn counters(trace: &Trace) -> Vec<(String, i64, f64)> {
    let (tables, strings) = (trace.tables(), trace.strings());
    let counter = &tables.counter;
    let mut all: Vec<_> = (0..counter.len())
        .map(|row| {
            let track = counter.track_id().get(row);
            let name = strings.text(tables.track.name().get(track)).to_owned();
            (name, counter.ts().get(row), counter.value().get(row))
        })
        .collect();
    all.sort_by(|one, other| (&one.0, one.1).cmp(&(&other.0, other.1)));
    all
}

#[test]
fn imported_json_has_the_slices_counters_and_flows_of_the_original() {
    let json = data("chrome.json");
    let (trace, report) = imported(&json, &Options::default());
    let (ours, direct) = (tables(&trace), tables(&json));
    assert_eq!(slices(&ours), slices(&direct));
    assert_eq!(slices(&ours).len(), 14);
    assert_eq!(counters(&ours), counters(&direct));
    assert_eq!(ours.tables().flow.len(), 1);
    assert_eq!(direct.tables().flow.len(), 1);
    let names = |trace: &Trace| {
        let (thread, strings) = (&trace.tables().thread, trace.strings());
        let all = (0..thread.len()).map(|row| {
            let name = strings.text(thread.name().get(row)).to_owned();
            (thread.tid().get(row), name)
        });
        all.filter(|(tid, _)| *tid != 0).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(names(&ours)[&11], "worker");
    let args = |trace: &Trace| {
        let (slice, strings) = (&trace.tables().slice, trace.strings());
        let inner = (0..slice.len()).find(|row| strings.text(slice.name().get(*row)) == "inner");
        let set = slice.arg_set_id().get(inner.unwrap()).unwrap();
        let mut keys: Vec<String> = trace
            .tables()
            .args
            .set(set)
            .map(|arg| strings.text(arg.key).to_owned())
            .map(|key| key.replace("debug.", "args."))
            .collect();
        keys.sort();
        keys
    };
    assert_eq!(args(&ours), args(&direct));
    let left: Vec<_> = report.losses.iter().collect();
    assert_eq!(
        left,
        [
            ("events of phase N", 1),
            ("process_sort_index of processes and threads", 1),
            (
                "slices that overlap others of their thread, moved to tracks of their own",
                1
            ),
        ]
    );
}

#[test]
fn more_events_than_fit_into_memory_are_sorted_in_a_file() {
    let mut json = b"[".to_vec();
    for number in (0..20_000u64).rev() {
        let (ts, name) = (number * 10, number % 7);
        write!(
            json,
            "{{\"ph\":\"X\",\"name\":\"s{name}\",\"pid\":1,\"tid\":1,\"ts\":{ts},\"dur\":10}},"
        )
        .unwrap();
    }
    let small = Options {
        memory: 64 << 10,
        ..Options::default()
    };
    let (trace, report) = imported(&json, &small);
    assert_eq!(report.events, 20_000);
    assert_eq!(trace, imported(&json, &Options::default()).0);
    let slices = slices(&tables(&trace));
    assert_eq!(slices.len(), 20_000);
    assert!(
        slices
            .iter()
            .all(|(.., dur, depth)| (*dur, *depth) == (10_000, 0))
    );
}

#[test]
fn output_of_perf_script_becomes_samples_with_function_names() {
    let text = data("perf.txt");
    let (trace, report) = imported(&text, &Options::default());
    assert_eq!((report.format, report.samples), (Format::PerfText, 4));
    let what = "samples without a callstack";
    assert_eq!(report.losses.iter().collect::<Vec<_>>(), [(what, 1)]);
    let trace = tables(&trace);
    let (tables, strings) = (trace.tables(), trace.strings());
    let times: Vec<_> = (0..4)
        .map(|row| tables.profiler_sample.ts().get(row))
        .collect();
    assert_eq!(
        times,
        [
            100_000_001_000,
            100_000_250_000,
            100_000_500_000,
            100_000_700_000
        ]
    );
    let functions: Vec<_> = (0..tables.stack_profile_frame.len())
        .map(|row| strings.text(tables.stack_profile_frame.name().get(row)))
        .collect();
    assert!(
        functions.contains(&"copy_page") && functions.contains(&"main"),
        "{functions:?}"
    );
    // Each event has a session.
    assert_eq!(tables.profiler_session.len(), 3);
}

#[test]
fn profiles_without_times_keep_their_weights() {
    let (trace, report) = imported(&data("stacks.collapsed"), &Options::default());
    assert_eq!(
        (report.format, report.samples),
        (Format::CollapsedStacks, 3)
    );
    let trace = tables(&trace);
    let weights: Vec<_> = counters(&trace).iter().map(|(.., value)| *value).collect();
    assert_eq!(weights, [17.0, 3.0, 5.0]);
    assert_eq!(trace.tables().profiler_sample.len(), 3);
}

#[test]
fn a_pprof_profile_keeps_functions_and_all_values() {
    let profile = ferretto_wire::encode(|out| {
        for (kind, unit) in [(1, 2), (3, 4)] {
            out.nested(1, |out| {
                out.varint(1, kind);
                out.varint(2, unit);
            });
        }
        out.nested(2, |out| {
            out.bytes(1, &[1, 2]);
            out.bytes(2, &[3, 90]);
        });
        out.nested(3, |out| {
            out.varint(1, 1);
            out.varint(2, 0x1000);
            out.varint(3, 0x9000);
            out.varint(5, 7);
        });
        for id in [1, 2] {
            out.nested(4, |out| {
                out.varint(1, id);
                out.varint(2, 1);
                out.varint(3, 0x1000 + id * 16);
                out.nested(4, |out| {
                    out.varint(1, id);
                    out.varint(2, 10 * id);
                });
            });
            out.nested(5, |out| {
                out.varint(1, id);
                out.varint(2, 4 + id);
                out.varint(4, 8);
            });
        }
        for text in [
            "",
            "samples",
            "count",
            "cpu",
            "nanoseconds",
            "leaf",
            "main",
            "/bin/x",
            "/src/x.c",
        ] {
            out.string(6, text);
        }
    });
    let (trace, report) = imported(&profile, &Options::default());
    assert_eq!((report.format, report.samples), (Format::Pprof, 1));
    let trace = tables(&trace);
    let strings = trace.strings();
    let values: Vec<_> = counters(&trace)
        .into_iter()
        .map(|(.., value)| value)
        .collect();
    assert_eq!(values.iter().sum::<f64>(), 93.0);
    let frames = &trace.tables().stack_profile_frame;
    let names = (0..frames.len()).map(|row| strings.text(frames.name().get(row)));
    assert_eq!(names.collect::<Vec<_>>(), ["main", "leaf"]);
    assert_eq!(report.losses.iter().count(), 0, "{:?}", report.losses);
    let symbols = &trace.tables().stack_profile_symbol;
    let lines: Vec<_> = (0..symbols.len())
        .map(|row| {
            let name = strings.text(symbols.name().get(row));
            let file = strings.text(symbols.source_file().get(row));
            (name, file, symbols.line_number().get(row))
        })
        .collect();
    let (main, leaf) = (
        ("main", "/src/x.c", Some(20)),
        ("leaf", "/src/x.c", Some(10)),
    );
    assert_eq!(lines, [main, leaf]);
}

#[test]
fn files_that_cannot_be_imported_are_refused_with_a_reason() {
    let refusal = |bytes: &[u8]| {
        let result = import(Cursor::new(bytes), &Options::default(), &mut Vec::new());
        result.unwrap_err().to_string()
    };
    let trace = imported(&data("stacks.collapsed"), &Options::default()).0;
    assert!(refusal(&trace).contains("is a Perfetto trace already"));
    assert!(refusal(b"\x7fELF").contains("perf.data"));
    assert!(refusal(b"").contains("unknown format"));
    assert!(refusal(b"2ELIFREP\0\0\0\0").contains("the other byte order"));
    assert!(refusal(b"PERFILE2").contains("ends within its header"));
    let broken = refusal(b"{\"traceEvents\":[}");
    assert!(broken.contains("JSON"), "{broken}");
    let result = import(Cursor::new(b"x"), &Options::default(), &mut Vec::new());
    assert!(matches!(result, Err(ImportError::Format(None))));
}

#[test]
fn any_bytes_are_imported_or_refused() {
    let files = [
        data("chrome.json"),
        data("perf.txt"),
        data("stacks.collapsed"),
        perf::file(),
    ];
    for file in files {
        for seed in 0..50usize {
            let mut file = file.clone();
            for turn in 0..4usize {
                let at = seed.wrapping_mul(7919).wrapping_add(turn * 104_729) % file.len();
                file[at] ^= (seed as u8).wrapping_mul(31) | 1;
            }
            file.truncate(file.len() - seed % 16);
            let mut out = Vec::new();
            if import(Cursor::new(&file), &Options::default(), &mut out).is_ok() {
                let options = ferretto_tables::Options::default();
                drop(Trace::read(Cursor::new(out), &options));
            }
        }
    }
}
