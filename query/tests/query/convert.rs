//! Conversions to formats of other programs, and upstream's commands.

use std::process::Output;

use crate::common::{PROGRAM, TRACE, encode, import, query};
use crate::profiles::PROFILE;

const SCHED: &str = r#"
    packet { trusted_packet_sequence_id: 2 ftrace_events { cpu: 1
      event { timestamp: 1000000 pid: 7 sched_switch { prev_comm: "a" prev_pid: 7 prev_prio: 120
        prev_state: 1 next_comm: "b" next_pid: 8 next_prio: 110 } }
      event { timestamp: 3000000 pid: 8 sched_switch { prev_comm: "b" prev_pid: 8 prev_prio: 110
        prev_state: 0 next_comm: "a" next_pid: 7 next_prio: 120 } } } }"#;

struct Files(tempfile::TempDir);

impl Files {
    fn new(trace: &str) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        std::fs::write(folder.path().join("t"), encode(trace)).expect("trace");
        std::os::unix::fs::symlink(PROGRAM, folder.path().join("trace_processor_shell"))
            .expect("link");
        Self(folder)
    }

    fn convert(&self, format: &str) -> Output {
        let mut command = query();
        command.args(["convert", format, "t"]).current_dir(&self.0);
        command.output().expect("program")
    }

    /// Runs upstream's name.
    fn classic(&self, arguments: &[&str]) -> Output {
        let mut command = std::process::Command::new(self.0.path().join("trace_processor_shell"));
        command.stdin(std::process::Stdio::null()).args(arguments);
        command.current_dir(&self.0).output().expect("program")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn written(output: Output) -> Vec<u8> {
    assert!(output.status.success(), "{}", text(&output.stderr));
    output.stdout
}

/// Returns the rows of a query over a file of any format.
fn rows_of(bytes: &[u8], sql: &str) -> Vec<String> {
    let trace = ferretto_tables::Trace::read(bytes, &ferretto_tables::Options::default());
    let trace = std::sync::Arc::new(trace.expect("a trace"));
    crate::common::Session::of(&trace).rows(sql)
}

const SWITCHES: &str = "SELECT ts, dur, cpu, tid, end_state, priority
    FROM sched JOIN thread USING (utid) ORDER BY ts";

#[test]
fn query_143_systrace_text_opens_with_the_same_sched_rows() {
    let files = Files::new(SCHED);
    let expected = crate::common::Session::of(&import(SCHED)).rows(SWITCHES);
    assert_eq!(expected.len(), 2);
    let lines = written(files.convert("systrace"));
    assert_eq!(rows_of(&lines, SWITCHES), expected);
    let compressed = written(files.convert("ctrace"));
    assert!(compressed.starts_with(b"TRACE:\n"));
    assert!(compressed.len() < lines.len());
}

#[test]
fn query_124_the_program_converts_under_the_name_traceconv() {
    let files = Files::new(SCHED);
    let path = files.0.path().join("traceconv");
    std::os::unix::fs::symlink(PROGRAM, &path).expect("link");
    let mut command = std::process::Command::new(path);
    command.args(["systrace", "t", "out"]).current_dir(&files.0);
    written(command.output().expect("program"));
    let lines = std::fs::read(files.0.path().join("out")).expect("the output");
    assert_eq!(rows_of(&lines, SWITCHES).len(), 2);
}

#[test]
fn callstacks_are_written_for_other_profilers() {
    let files = Files::new(PROFILE);
    let firefox = text(&written(files.convert("firefox")));
    for part in ["\"stackTable\"", "\"stringTable\":[\"", "\"samples\""] {
        assert!(firefox.contains(part), "{firefox}");
    }
    let stacks = written(files.convert("speedscope"));
    assert!(text(&stacks).contains("\"type\":\"sampled\""));
}

#[test]
fn slices_are_written_for_speedscope() {
    let files = Files::new(TRACE);
    let stacks = text(&written(files.convert("speedscope")));
    assert!(stacks.contains("\"type\":\"evented\""), "{stacks}");
    let count = |what: &str| stacks.matches(what).count();
    assert_eq!(count("\"type\":\"O\""), count("\"type\":\"C\""));
    assert!(count("\"type\":\"O\"") >= 2);
}

#[test]
fn traces_that_a_format_cannot_show_are_refused() {
    let files = Files::new("packet { timestamp: 5 }");
    for format in ["systrace", "ctrace", "firefox", "speedscope"] {
        let output = files.convert(format);
        assert_eq!(output.status.code(), Some(1), "{format}");
        assert!(
            text(&output.stderr).contains("the trace has no"),
            "{format}"
        );
    }
    let output = files.convert("profile");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("ferretto profile"));
}

#[test]
fn upstreams_commands_work_under_its_name() {
    let files = Files::new(TRACE);
    let count = "select count(*) as n from slice";
    let expected = "\"n\"\n4\n";
    let query = |arguments: &[&str]| text(&written(files.classic(arguments)));
    assert_eq!(query(&["query", "t", count]), expected);
    assert_eq!(query(&["--full-sort", "query", "t", count]), expected);
    std::fs::write(files.0.path().join("q.sql"), count).expect("SQL");
    assert_eq!(query(&["query", "-f", "q.sql", "t"]), expected);
    assert_eq!(query(&["query", "t", "-W", "--dev", count]), expected);
    query(&["export", "sqlite", "-o", "t.db", "t"]);
    let database = std::fs::read(files.0.path().join("t.db")).expect("a database");
    assert!(database.starts_with(b"SQLite format 3\0"));
    let spec = "metric_spec { id: \"m\" value: \"dur\" query { simple_slices { } } }";
    std::fs::write(files.0.path().join("s.textproto"), spec).expect("a specification");
    let summary = query(&["summarize", "--metrics-v2", "all", "t", "s.textproto"]);
    assert!(summary.contains("metric_bundles"), "{summary}");
    assert!(query(&["convert", "speedscope", "t"]).contains("$schema"));
}

#[test]
fn what_is_not_offered_is_refused_before_the_trace_is_read() {
    let files = Files::new(TRACE);
    let refused: &[&[&str]] = &[
        &["--run-metrics", "x", "t"],
        &["metrics", "t", "--run", "x"],
        &["-m", "out", "t"],
        &["--allow-sql-file-access", "t"],
        &["bundle", "t", "out"],
        &["util", "merge", "t"],
        &["server", "carrier", "t"],
        &["export", "perfetto", "-o", "out", "t"],
        &["export", "sqlite", "t"],
        &["convert", "profile", "t"],
        &["--unknown", "t"],
    ];
    for arguments in refused {
        let output = files.classic(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn servers_in_the_background_answer_upstreams_name() {
    let files = Files::new(TRACE);
    let run = |arguments: &[&str]| text(&written(files.classic(arguments)));
    run(&["server", "unix", "--path", "./s.sock", "--daemonize", "t"]);
    let rows = run(&[
        "query",
        "--remote",
        "./s.sock",
        "select count(*) as n from slice",
    ]);
    run(&["server", "kill", "./s.sock"]);
    assert_eq!(rows, "\"n\"\n4\n");
}
