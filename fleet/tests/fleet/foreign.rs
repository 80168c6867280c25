//! Exported traces in DuckDB. The test runs if `DUCKDB_PYTHON` names a Python interpreter with the
//! package `duckdb`.

use std::process::Command;

use crate::common::{TRACE, encode};

const SCRIPT: &str = r#"
import sys, duckdb
root = sys.argv[1]
rows = duckdb.sql(f"""
    select t.path, s.name, count(*), sum(s.dur)
    from read_parquet('{root}/table=slice/**/*.parquet', hive_partitioning = true) s
    join read_parquet('{root}/table=trace/*.parquet') t using (trace_id)
    group by 1, 2 order by 1, 2""").fetchall()
for path, name, count, dur in rows:
    print(f'"{path}","{name}",{count},{dur}')
"#;

#[test]
fn duckdb_reads_the_same_rows() {
    let Some(python) = std::env::var_os("DUCKDB_PYTHON") else {
        println!("skipped: DUCKDB_PYTHON does not name an interpreter with the package duckdb");
        return;
    };
    let folder = tempfile::tempdir().expect("folder");
    for number in 0..3 {
        let path = folder.path().join(format!("{number}.pftrace"));
        std::fs::write(path, encode(TRACE)).expect("trace");
    }
    let traces = folder.path().join("*.pftrace");
    let query = || {
        let mut command = crate::common::query();
        command.arg(&traces);
        command
    };
    let target = folder.path().join("out");
    let exported = query().args(["--export", "parquet"]).arg(&target).output();
    assert!(exported.expect("the program").status.success());
    let sql = "select path, name, count(*), sum(dur) from slice group by 1, 2 order by 1, 2";
    let queried = query().arg(sql).output().expect("the program");
    let queried = String::from_utf8_lossy(&queried.stdout).into_owned();
    let (_, queried) = queried.split_once('\n').expect("a header");
    let read = Command::new(python)
        .args(["-c", SCRIPT])
        .arg(&target)
        .output();
    let read = read.expect("the interpreter");
    assert_eq!(String::from_utf8_lossy(&read.stderr), "");
    assert_eq!(String::from_utf8_lossy(&read.stdout), queried);
}
