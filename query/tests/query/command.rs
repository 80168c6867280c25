//! The programs on the command line.

use std::io::Write;
use std::path::PathBuf;
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
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("program");
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

const COUNT: &str = "select count(*) as n from slice";

#[test]
fn query_119_sql_comes_from_arguments_files_and_standard_input() {
    let f = fixture();
    let file = f.folder.path().join("q.sql");
    std::fs::write(&file, COUNT).expect("file");
    let expected = "\"n\"\n4\n";
    let out = |command: &mut Command, input: &str| {
        let output = run(command, input);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    assert_eq!(out(query().arg(&f.trace).arg(COUNT), ""), expected);
    assert_eq!(
        out(query().arg(&f.trace).arg("-f").arg(&file), ""),
        expected
    );
    assert_eq!(out(query().arg(&f.trace), COUNT), expected);
    assert_eq!(
        out(f.classic().arg("-Q").arg(COUNT).arg(&f.trace), ""),
        expected
    );
    assert_eq!(
        out(f.classic().arg(&f.trace).arg("-q").arg(&file), ""),
        expected
    );
    let times = f.folder.path().join("times");
    assert_eq!(
        out(f.classic().arg(&f.trace).arg("-p").arg(&times), COUNT),
        expected
    );
    let times = std::fs::read_to_string(times).expect("times");
    assert_eq!(
        times
            .trim()
            .split(',')
            .filter(|t| t.parse::<u64>().is_ok())
            .count(),
        2
    );
    for command in [&mut query(), &mut f.classic()] {
        let failed = run(command.arg(&f.trace), "select nonsense from slice");
        assert_eq!(failed.status.code(), Some(1));
        assert!(text(&failed.stderr).contains("'nonsense'"));
    }
}

#[test]
fn data_that_the_tables_lack_is_reported_with_exit_code_3() {
    let f = fixture();
    let query = |trace: &[u8]| {
        std::fs::write(&f.trace, trace).expect("trace");
        let out = run(Command::new(PROGRAM).arg(&f.trace).arg(COUNT), "");
        assert!(text(&out.stdout).starts_with("\"n\"\n"));
        (out.status.code(), text(&out.stderr))
    };
    assert_eq!(query(&encode(TRACE)), (Some(0), String::new()));
    // An event without a sequence.
    let (code, stderr) = query(&encode(
        "packet { timestamp: 5 track_event { type: TYPE_INSTANT track_uuid: 1 name: \"x\" } }",
    ));
    assert!(
        stderr.contains("track_event_missing_sequence_id = 1"),
        "{stderr}"
    );
    assert_eq!(code, Some(3));
    // A file that ends inside a packet.
    let mut cut = encode(TRACE);
    cut.pop();
    let (code, stderr) = query(&cut);
    assert_eq!(code, Some(3), "{stderr}");
}

#[test]
fn query_120_the_classic_name_prints_its_versions() {
    let f = fixture();
    let output = run(f.classic().arg("--version"), "");
    assert!(text(&output.stdout).contains("Trace Processor RPC API version: 14"));
}

#[test]
fn results_have_formats_for_programs() {
    let f = fixture();
    let sql = "select name, dur, 0.5 as half, null as nothing from slice order by ts limit 2";
    let out = |format: &str| {
        let output = run(
            query().arg(&f.trace).arg(sql).args(["--format", format]),
            "",
        );
        assert!(output.status.success(), "{}", text(&output.stderr));
        output.stdout
    };
    let rows: serde_json::Value = serde_json::from_slice(&out("json")).expect("JSON");
    assert_eq!(rows[1]["name"], "inner");
    assert_eq!(rows[0]["half"], 0.5);
    assert!(rows[0]["nothing"].is_null());
    let lines = text(&out("ndjson"));
    assert_eq!(lines.lines().count(), 2);
    let table = text(&out("table"));
    assert!(table.starts_with("name   dur  half  nothing\n"), "{table}");
    assert_eq!(&out("arrow")[..6], b"ARROW1");
    assert_eq!(&out("parquet")[..4], b"PAR1");
}

#[test]
fn reports_print_their_sql() {
    let f = fixture();
    let output = run(query().arg(&f.trace).args(["--report", "slices"]), "");
    let out = text(&output.stdout);
    assert!(
        output.status.success() && out.contains("FROM slice"),
        "{out}"
    );
    assert!(out.contains("outer"), "{out}");
}

#[test]
fn a_query_that_needs_too_much_memory_fails_with_a_message() {
    let f = fixture();
    let sql = "with n as (select 1 as x union all select x + 1 from n where x < 500), \
               p as (select a.x * 1000 + b.x as y from n a, n b) \
               select count(*) from p p1 join p p2 on p1.y = p2.y";
    let mut command = query();
    let output = run(
        command
            .arg(&f.trace)
            .arg(sql)
            .args(["--memory-limit", "1M"]),
        "",
    );
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(error.contains("more memory than allowed"), "{error}");
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
    let output = run(
        f.classic()
            .args(flags)
            .arg(&f.trace)
            .args(["-Q", "select name from slice"]),
        "",
    );
    assert_eq!(text(&output.stdout), "\"name\"\n\"late\"\n");
    assert!(text(&output.stderr).contains("--extra-checks has no effect"));
}
