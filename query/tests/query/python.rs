//! The Python package `perfetto` with our program instead of upstream's. The test runs if
//! `PERFETTO_PYTHON` names a Python interpreter with the package.

use std::process::Command;

use crate::common::{PROGRAM, TRACE, encode};

const SCRIPT: &str = r#"
import sys
from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig
config = TraceProcessorConfig(bin_path=sys.argv[1], load_timeout=60)
tp = TraceProcessor(trace=sys.argv[2], config=config)
for row in tp.query("select name, dur, null as empty from slice order by ts"):
    print(row.name, row.dur, row.empty)
try:
    tp.query("select nonsense from slice")
except Exception as error:
    print("error" if "nonsense" in str(error) else "no error")
spec = """metric_spec { id: 'slices' value: 'n'
  query { sql { sql: 'SELECT count(*) AS n FROM slice' } } }"""
print(tp.trace_summary([spec]).metric_bundles[0].row[0].values[0].double_value)
tp.enable_metatrace()
tp.query("select 42")
print(b"select 42" in bytes(tp.disable_and_read_metatrace()))
tp.export(sys.argv[2] + ".db", "sqlite")
import sqlite3
print(sqlite3.connect(sys.argv[2] + ".db").execute("select count(*) from slice").fetchone()[0])
tp.close()
"#;

#[test]
fn query_138_the_python_package_works_with_our_program() {
    let Some(python) = std::env::var_os("PERFETTO_PYTHON") else {
        println!("skipped: PERFETTO_PYTHON does not name an interpreter with the package perfetto");
        return;
    };
    let folder = tempfile::tempdir().expect("folder");
    let trace = folder.path().join("t.pftrace");
    std::fs::write(&trace, encode(TRACE)).expect("trace");
    let program = folder.path().join("trace_processor_shell");
    std::os::unix::fs::symlink(PROGRAM, &program).expect("link");
    let output = Command::new(python)
        .args(["-c", SCRIPT])
        .args([&program, &trace])
        .output()
        .expect("the interpreter");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let expected =
        "outer 100 None\ninner 40 None\ninnermost 10 None\nlater 30 None\nerror\n4.0\nTrue\n4\n";
    assert_eq!(printed, expected);
}
