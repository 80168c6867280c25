//! Compares imported traces with upstream's trace processor: with its recorded answers, and with
//! the program itself if `FERRETTO_UPSTREAM` is set.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use ferretto_foreign::Options;

use super::{data, imported, perf};

/// The queries about a trace.
const QUERIES: [(&str, &str); 4] = [
    (
        "errors",
        "select count(*) as n from stats where severity in ('error', 'data_loss') and value > 0 \
         and name not in ('perf_samples_lost', 'perf_cpu_lost_records')",
    ),
    ("slices", "select count(*) as n from slice"),
    ("counters", "select count(*) as n from counter"),
    (
        "samples",
        "select count(*) as n from __intrinsic_profiler_sample",
    ),
];

/// The answers of upstream's version 58.2 for each file.
const ANSWERS: [(&str, [u64; 4]); 4] = [
    ("chrome.json", [0, 14, 4, 0]),
    ("perf.txt", [0, 0, 4, 4]),
    ("stacks.collapsed", [0, 0, 3, 3]),
    ("perf.data", [0, 0, 3, 3]),
];

fn trace(name: &str) -> Vec<u8> {
    let file = match name {
        "perf.data" => perf::file(),
        name => data(name),
    };
    imported(&file, &Options::default()).0
}

#[test]
fn upstreams_trace_processor_reads_imported_traces_without_errors() {
    let Some(folder) = env::var_os("FERRETTO_UPSTREAM").map(PathBuf::from) else {
        println!("skipped: FERRETTO_UPSTREAM does not name the folder of upstream's programs");
        return;
    };
    let temp = tempfile::tempdir().unwrap();
    for (name, expected) in ANSWERS {
        let path = temp.path().join("t");
        std::fs::write(&path, trace(name)).unwrap();
        for ((what, query), expected) in QUERIES.iter().zip(expected) {
            let output = Command::new(folder.join("trace_processor_shell"))
                .arg("-Q")
                .arg(query)
                .arg(&path)
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            let answer = text
                .lines()
                .last()
                .and_then(|line| line.trim().parse::<u64>().ok());
            assert_eq!(answer, Some(expected), "{name}: {what}: {text} {output:?}");
        }
    }
}

#[test]
fn our_tables_match_the_answers_of_upstream() {
    for (name, [_, slices, counters, samples]) in ANSWERS {
        let trace = super::tables(&trace(name));
        let tables = trace.tables();
        let ours: [u64; 3] = [
            tables.slice.len().into(),
            tables.counter.len().into(),
            tables.profiler_sample.len().into(),
        ];
        assert_eq!(ours, [slices, counters, samples], "{name}");
    }
}
