//! The programs on the command line.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::common::{TRACE, encode, query};

struct Fixture {
    _folder: tempfile::TempDir,
    trace: PathBuf,
}

fn fixture() -> Fixture {
    let folder = tempfile::tempdir().expect("folder");
    let trace = folder.path().join("t.pftrace");
    std::fs::write(&trace, encode(TRACE)).expect("trace");
    Fixture {
        _folder: folder,
        trace,
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
