//! The programs on the command line.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::{PROGRAM, TRACE, encode, query};

struct Fixture {
    folder: tempfile::TempDir,
    trace: PathBuf,
}

fn fixture() -> Fixture {
    let folder = tempfile::tempdir().expect("folder");
    let trace = folder.path().join("t.pftrace");
    std::fs::write(&trace, encode(TRACE)).expect("trace");
    Fixture { folder, trace }
}

impl Fixture {
    /// Returns the program as a command with upstream's name.
    fn classic(&self) -> Command {
        let link = self.folder.path().join("trace_processor_shell");
        if !link.exists() {
            std::os::unix::fs::symlink(PROGRAM, &link).expect("link");
        }
        Command::new(link)
    }
}

fn run(command: &mut Command, input: &str) -> Output {
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("program");
    // Programs that do not read their input may have closed it.
    let _ = child
        .stdin
        .take()
        .expect("pipe")
        .write_all(input.as_bytes());
    child.wait_with_output().expect("end")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the output of a program that succeeds.
fn out(command: &mut Command, input: &str) -> String {
    let output = run(command, input);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

const COUNT: &str = "select count(*) as n from slice";

#[test]
fn an_empty_file_is_refused_but_not_a_trace_without_contents() {
    let f = fixture();
    let empty = f.folder.path().join("empty");
    std::fs::write(&empty, "").expect("a file");
    for arguments in [&[][..], &["--serve", "--stdio"]] {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).arg(&empty);
        if arguments.is_empty() {
            command.arg(COUNT);
        }
        let output = run(&mut command, "");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let reason = text(&output.stderr);
        assert!(reason.contains("the file is empty"), "{reason}");
    }
    let nothing = out(Command::new(PROGRAM).args(["/dev/null", COUNT]), "");
    assert!(nothing.contains('0'), "{nothing}");
    // Upstream's program takes it.
    let mut classic = f.classic();
    let count = out(
        classic.args(["query", "-f", "/dev/stdin"]).arg(&empty),
        COUNT,
    );
    assert!(count.contains('0'), "{count}");
}

#[test]
fn query_119_sql_comes_from_arguments_files_and_standard_input() {
    let f = fixture();
    let file = f.folder.path().join("q.sql");
    std::fs::write(&file, COUNT).expect("file");
    let expected = "\"n\"\n4\n";
    assert_eq!(out(query().arg(&f.trace).arg(COUNT), ""), expected);
    assert_eq!(
        out(query().arg(&f.trace).arg("-f").arg(&file), ""),
        expected
    );
    assert_eq!(out(query().arg(&f.trace), COUNT), expected);
    let classic =
        |arguments: &[&str], input: &str| out(f.classic().arg(&f.trace).args(arguments), input);
    assert_eq!(classic(&["-Q", COUNT], ""), expected);
    assert_eq!(classic(&["-q", &file.to_string_lossy()], ""), expected);
    let times = f.folder.path().join("times");
    assert_eq!(classic(&["-p", &times.to_string_lossy()], COUNT), expected);
    let times = std::fs::read_to_string(times).expect("times");
    let numbers = times.trim().split(',').filter(|t| t.parse::<u64>().is_ok());
    assert_eq!(numbers.count(), 2);
    for command in [&mut query(), &mut f.classic()] {
        let failed = run(command.arg(&f.trace), "select nonsense from slice");
        assert_eq!(failed.status.code(), Some(1));
        assert!(text(&failed.stderr).contains("nonsense"));
    }
}

#[test]
fn servers_report_losses_of_their_trace() {
    let f = fixture();
    let serve = || run(query().args(["--serve", "--stdio"]).arg(&f.trace), "");
    let whole = serve();
    assert!(whole.status.success());
    assert_eq!(text(&whole.stderr), "");
    // A file that ends in the middle of a packet.
    let bytes = std::fs::read(&f.trace).expect("trace");
    std::fs::write(&f.trace, &bytes[..bytes.len() - 3]).expect("trace");
    let cut = serve();
    assert!(cut.status.success());
    let reported = text(&cut.stderr);
    assert!(reported.contains(&*f.trace.to_string_lossy()), "{reported}");
    assert!(reported.contains("ends inside a packet"), "{reported}");
}

#[test]
fn sql_may_begin_with_a_comment() {
    let f = fixture();
    for sql in [
        "-- all slices\nselect count(*) as n from slice",
        "--all = slices\n select 4 as n",
    ] {
        assert_eq!(out(query().arg(&f.trace).arg(sql), ""), "\"n\"\n4\n");
    }
}

#[test]
fn query_120_the_classic_name_prints_its_versions() {
    let printed = out(fixture().classic().arg("--version"), "");
    assert!(printed.contains("Trace Processor RPC API version: 14"));
}

#[test]
fn modules_are_read_from_folders() {
    let f = fixture();
    let folder = f.folder.path().join("own");
    std::fs::create_dir_all(folder.join("a")).expect("folder");
    let sql = "CREATE PERFETTO VIEW v AS SELECT 7 AS x";
    std::fs::write(folder.join("a/b.sql"), sql).expect("module");
    let sql = "INCLUDE PERFETTO MODULE own.a.b; SELECT x FROM v";
    let mut command = f.classic();
    command.arg(&f.trace).arg("--add-sql-package").arg(&folder);
    assert_eq!(out(command.args(["-Q", sql]), ""), "\"x\"\n7\n");
}

#[test]
fn results_have_formats() {
    let f = fixture();
    let sql = "select name, dur, 0.5 as half, null as empty from slice order by ts limit 2; \
               select 1 as suppress_query_output; select 'a\"b\n' as t where 0";
    let of = |format: &str| {
        let mut command = query();
        out(
            command.arg(&f.trace).arg(sql).args(["--format", format]),
            "",
        )
    };
    assert_eq!(
        of("table"),
        "name   dur  half  empty\n─────  ───  ────  ─────\nouter  100   0.5   NULL\n\
         inner   40   0.5   NULL\n\nt\n─\n"
    );
    assert_eq!(
        of("csv"),
        "\"name\",\"dur\",\"half\",\"empty\"\n\"outer\",100,0.500000,\"[NULL]\"\n\
         \"inner\",40,0.500000,\"[NULL]\"\n\n\"t\"\n"
    );
    let outer = r#"{"name":"outer","dur":100,"half":0.5,"empty":null}"#;
    let inner = outer.replace("outer", "inner").replace("100", "40");
    assert_eq!(of("ndjson"), format!("{outer}\n{inner}\n"));
    assert_eq!(of("json"), format!("[\n  {outer},\n  {inner}\n]\n[]\n"));
    // Every answer is a value, and has each key once.
    let json = |sql: &str| {
        let mut command = query();
        out(command.arg(&f.trace).args([sql, "--format", "json"]), "")
    };
    assert_eq!(json("create perfetto table empty as select 1"), "[]\n");
    assert_eq!(json("select 1 as suppress_query_output"), "");
    assert_eq!(
        json("select 1 as a, 2 as a, 3 as \"a:1\", 4 as a, 5 as b"),
        "[\n  {\"a\":1,\"a:2\":2,\"a:1\":3,\"a:3\":4,\"b\":5}\n]\n"
    );
    let mut command = query();
    let failed = run(command.arg(&f.trace).args(["x ", "--format", "json"]), "");
    assert_eq!(text(&failed.stdout), "");
    let failed = run(query().arg(&f.trace).arg(""), "");
    assert!(text(&failed.stderr).contains("No valid SQL"));
    let mut command = query();
    command.arg(&f.trace).args([
        "select 'a\"\\' || char(10, 1) as \"k\"\"\"",
        "--format",
        "ndjson",
    ]);
    assert_eq!(
        out(&mut command, ""),
        "{\"k\\\"\":\"a\\\"\\\\\\n\\u0001\"}\n"
    );
}

#[test]
fn wrong_arguments_are_explained() {
    let f = fixture();
    for (arguments, message) in [
        (vec!["--format", "xml"], "'xml' is not a format"),
        (vec!["--memory-limit", "1X"], "'X' is not a unit"),
        (vec!["--nonsense"], "--help lists the options"),
        (vec!["--serve", "select 1"], "--serve takes no SQL"),
        (vec!["--port", "1"], "belong to --serve"),
        (
            vec!["select 1", "select 2"],
            "quote the SQL as one argument",
        ),
        (vec!["--report", "all"], "latency, cpu, threads"),
        (vec!["--report", "cpu", "select 1"], "by an option"),
        (vec!["--report", "cpu", "-f", "x"], "--report takes no SQL"),
        (vec!["--export", "csv", "x"], "sqlite, arrow or parquet"),
        (vec!["other.pftrace", "--serve"], "--serve takes one trace"),
    ] {
        let output = run(query().arg(&f.trace).args(&arguments), "");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(message), "{arguments:?}");
    }
    assert_eq!(run(&mut query(), "").status.code(), Some(2));
    let missing = run(query().arg("/nonexistent/trace").arg("select 1"), "");
    assert!(text(&missing.stderr).contains("/nonexistent/trace"));
    assert!(out(query().arg("--help"), "").contains("--memory-limit"));
    assert!(out(query().arg("--schema-docs"), "").contains("slice"));
}

#[test]
fn data_that_the_tables_lack_is_reported_with_exit_code_3() {
    let f = fixture();
    let query = |trace: &[u8]| {
        std::fs::write(&f.trace, trace).expect("trace");
        let out = run(query().arg(&f.trace).arg(COUNT), "");
        assert!(text(&out.stdout).starts_with("\"n\"\n"));
        (out.status.code(), text(&out.stderr))
    };
    assert_eq!(query(&encode(TRACE)), (Some(0), String::new()));
    // An event without a sequence.
    let (code, stderr) = query(&encode(
        "packet { timestamp: 5 track_event { type: TYPE_INSTANT track_uuid: 1 name: \"x\" } }",
    ));
    let missing = "track_event_missing_sequence_id = 1";
    assert!(stderr.contains(missing), "{stderr}");
    assert_eq!(code, Some(3));
    // A file that ends inside a packet.
    let mut cut = encode(TRACE);
    cut.pop();
    let (code, stderr) = query(&cut);
    assert_eq!(code, Some(3), "{stderr}");
}

#[test]
fn reports_print_their_sql() {
    let f = fixture();
    for report in ferretto_query::reports::Report::ALL {
        let mut command = query();
        command.arg(&f.trace).args(["--report", report.name()]);
        let printed = out(&mut command, "");
        assert!(printed.starts_with(report.sql()), "{printed}");
    }
    let mut slices = query();
    let printed = out(slices.arg(&f.trace).args(["--report", "slices"]), "");
    assert!(printed.contains("\"outer\",1,0,0,0,0\n"), "{printed}");
}

#[test]
fn the_classic_name_accepts_the_flags_of_upstreams_test_runner() {
    let f = fixture();
    let trace = "packet { track_event_range_of_interest { start_us: 3 } }
        packet { trusted_packet_sequence_id: 1 sequence_flags: 1 timestamp: 2000
            track_event { type: TYPE_INSTANT name: \"early\" } }
        packet { trusted_packet_sequence_id: 1 timestamp: 4000
            track_event { type: TYPE_INSTANT name: \"late\" } }";
    std::fs::write(&f.trace, encode(trace)).expect("trace");
    let flags = [
        "--analyze-trace-proto-content",
        "--crop-track-events",
        "--extra-checks",
    ];
    let mut command = f.classic();
    command.args(flags).arg(&f.trace);
    let output = run(command.args(["-Q", "select name from slice"]), "");
    assert_eq!(text(&output.stdout), "\"name\"\n\"late\"\n");
    assert!(text(&output.stderr).contains("--extra-checks has no effect"));
    let wrong = run(f.classic().arg("--nonsense"), "");
    assert_eq!(wrong.status.code(), Some(2));
}

/// Many traces are the task of another program, which gets the same arguments.
#[test]
fn many_traces_are_handed_to_ferretto_fleet() {
    let f = fixture();
    let own = f.folder.path().join("ferretto-query");
    // Another process writes the programs: a file that this one has open for writing could be in
    // the children of other tests, too, and could not be executed.
    let shell = |script: &str, path: &Path| {
        let mut command = Command::new("sh");
        let done = command.args(["-c", script, PROGRAM]).arg(path).status();
        assert!(done.expect("a shell").success());
    };
    shell("cp \"$0\" \"$1\"", &own);
    let trace = f.trace.to_string_lossy().into_owned();
    let folder = f.folder.path().to_string_lossy().into_owned();
    let pattern = format!("{folder}/*.pftrace");
    let tasks = [
        vec![trace.as_str(), &trace, COUNT],
        vec![&pattern, COUNT],
        vec![&folder, COUNT],
        vec!["s3://bucket/traces", COUNT],
        vec![&trace, COUNT, "--per-trace"],
        vec![&trace, COUNT, "--format", "parquet"],
        vec![&trace, "--export", "parquet", "out", "--tables", "slice"],
        vec![&trace, COUNT, "--cluster", "df://localhost:50050"],
        vec!["scheduler", "--port", "0"],
        vec!["executor", "--help"],
    ];
    let hand_over = |arguments: &[&str]| {
        let mut command = Command::new(&own);
        run(command.args(arguments).env("PATH", &folder), "")
    };
    for task in &tasks {
        let output = hand_over(task);
        assert_eq!(output.status.code(), Some(1), "{task:?}");
        let error = text(&output.stderr);
        assert!(error.contains("cargo install --path fleet"), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let fleet = f.folder.path().join("ferretto-fleet");
    let program = "#!/bin/sh\nprintf '%s|' \"$@\"\nexit 3\n";
    let write = format!("cat >\"$1\" <<'END' && chmod +x \"$1\"\n{program}END\n");
    shell(&write, &fleet);
    for task in &tasks {
        let output = hand_over(task);
        assert_eq!(output.status.code(), Some(3), "{task:?}");
        assert_eq!(text(&output.stdout), task.join("|") + "|");
    }
}

#[test]
fn query_121_losses_and_errors_of_a_trace_are_reported() {
    let folder = tempfile::tempdir().expect("folder");
    let program = folder.path().join("trace_processor_shell");
    std::os::unix::fs::symlink(PROGRAM, &program).expect("link");
    let errors = |text: &str| {
        let trace = folder.path().join("t.pftrace");
        std::fs::write(&trace, encode(text)).expect("trace");
        let mut command = Command::new(&program);
        command.args(["-Q", "select 1"]).arg(&trace);
        let output = command.output().expect("the program");
        assert!(output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let clean = errors(TRACE);
    assert!(!clean.contains("health"), "{clean}");
    // A clock twice in one snapshot.
    let clock = "clocks { clock_id: 6 timestamp: 1 }";
    let broken = format!("packet {{ clock_snapshot {{ {clock} {clock} }} }}");
    let reported = errors(&format!("{TRACE} {broken}"));
    assert!(reported.contains("Trace health issues"), "{reported}");
    assert!(
        reported.contains("invalid_clock_snapshots = 1"),
        "{reported}"
    );
}
