//! Exports: the tables of a trace as files of other programs.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use ferretto_query::export::{ExportFormat, export};
use rusqlite::Connection;
use rusqlite::types::Value;

use crate::common::{PROGRAM, Session, TRACE, encode, import, over};

/// Returns an export of the trace after these statements.
fn exported(format: ExportFormat, sql: &str) -> Vec<u8> {
    let mut session = Session::new();
    if !sql.is_empty() {
        session.csv(sql).expect("statements");
    }
    let mut bytes = Vec::new();
    export(&mut session.0, &import(TRACE), format, &mut bytes).expect("an export");
    bytes
}

/// Returns the rows of a query as text.
fn rows(database: &Connection, sql: &str) -> Vec<String> {
    let mut statement = database.prepare(sql).expect("a statement");
    let count = statement.column_count();
    let row = |row: &rusqlite::Row<'_>| {
        let value = |at| row.get::<_, Value>(at).map(|value| format!("{value:?}"));
        (0..count).map(value).collect::<rusqlite::Result<Vec<_>>>()
    };
    let rows = statement.query_map([], row).expect("rows");
    rows.map(|row| row.expect("a row").join("|")).collect()
}

#[test]
fn query_122_a_database_has_all_tables_and_views() {
    let made = "CREATE PERFETTO TABLE mine AS SELECT name, dur FROM slice; \
                CREATE PERFETTO VIEW long AS SELECT name FROM slice WHERE dur > 35;";
    let bytes = exported(ExportFormat::Sqlite, made);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.db");
    std::fs::write(&path, bytes).expect("written");
    let database = Connection::open(&path).expect("a database");
    assert_eq!(rows(&database, "PRAGMA integrity_check"), ["Text(\"ok\")"]);
    // All tables, with as many rows as in the session.
    let mut session = Session::new();
    let names = rows(
        &database,
        "SELECT name FROM sqlite_schema WHERE type = 'table'",
    );
    assert!(names.len() > 100, "{names:?}");
    for name in names {
        let name = name
            .trim_start_matches("Text(\"")
            .trim_end_matches("\")")
            .to_owned();
        if name == "mine" {
            continue;
        }
        let count = rows(&database, &format!("SELECT count(*) FROM \"{name}\""));
        let expected = session.value(&format!("count(*) FROM \"{name}\""));
        assert_eq!(count, [format!("Integer({expected})")], "of {name}");
    }
    let sql = "SELECT id, ts, dur, name, category, depth, parent_id FROM slice";
    let slices = rows(&database, sql);
    assert_eq!(slices.len(), 4);
    assert!(slices[0].contains("Text(\"outer\")"), "{slices:?}");
    assert_eq!(rows(&database, "SELECT count(*) FROM mine"), ["Integer(4)"]);
    assert_eq!(rows(&database, "SELECT name FROM long").len(), 2);
}

/// Returns the files of an archive.
fn files(mut archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    while archive.iter().take(512).any(|byte| *byte != 0) {
        let (header, rest) = archive.split_at(512);
        let text = |range: std::ops::Range<usize>| {
            let text = header[range]
                .split(|byte| *byte == 0)
                .next()
                .expect("a field");
            String::from_utf8(text.to_vec()).expect("text")
        };
        let size = usize::from_str_radix(&text(124..136), 8).expect("a size");
        let sum: u32 = header
            .iter()
            .enumerate()
            .map(|(at, byte)| {
                if (148..156).contains(&at) {
                    32
                } else {
                    u32::from(*byte)
                }
            })
            .sum();
        assert_eq!(u32::from_str_radix(text(148..156).trim(), 8), Ok(sum));
        files.insert(text(0..100), rest[..size].to_vec());
        archive = &rest[size.next_multiple_of(512)..];
    }
    assert_eq!(archive.len(), 1024, "two empty blocks are the end");
    files
}

/// Reads all tables with Arrow's own library, and prints those with rows.
const SCRIPT: &str = r#"
import sys, tarfile, io
import pyarrow.ipc as ipc
for file in tarfile.open(sys.argv[1]).getmembers():
    data = tarfile.open(sys.argv[1]).extractfile(file).read()
    table = ipc.open_file(io.BytesIO(data)).read_all()
    table.validate(full=True)
    if file.name == "slice.arrow":
        print(table.schema.field("ts").type, table.schema.field("name").type)
        for row in table.select(["id", "ts", "name", "parent_id"]).to_pylist():
            print(row["id"], row["ts"], row["name"], row["parent_id"])
"#;

#[test]
fn an_archive_has_a_file_of_arrow_for_each_table() {
    let archive = exported(ExportFormat::Arrow, "");
    let files = files(&archive);
    for id in ferretto_tables::TableId::ALL {
        let file = files
            .get(&format!("{}.arrow", id.spec().name))
            .expect("a file");
        assert!(file.starts_with(b"ARROW1\0\0") && file.ends_with(b"ARROW1"));
        // The footer and the messages are aligned.
        let end = file.len() - 10;
        let size = u32::from_le_bytes(file[end..end + 4].try_into().expect("a size"));
        assert_eq!((end - size as usize) % 8, 0);
        assert_eq!(size % 8, 0);
    }
    let Some(python) = std::env::var_os("PERFETTO_PYTHON") else {
        println!("skipped: PERFETTO_PYTHON does not name an interpreter with the package pyarrow");
        return;
    };
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("t.tar");
    std::fs::write(&path, archive).expect("written");
    let output = Command::new(python)
        .args(["-c", SCRIPT])
        .arg(&path)
        .output();
    let output = output.expect("the interpreter");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{error}");
    let mut session = over(TRACE);
    let slices = session.rows("SELECT id, ts, name, ifnull(parent_id, 'None') FROM slice");
    let slices: Vec<_> = slices
        .iter()
        .map(|row| row.replace(',', " ").replace('"', ""))
        .collect();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(printed, format!("int64 string\n{}\n", slices.join("\n")));
}

fn run(program: &Path, arguments: &[&str]) -> Result<Vec<u8>, String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(std::process::Stdio::null());
    let output = command.output().expect("the program");
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

#[test]
fn the_programs_write_exports() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let mut trace = std::fs::File::create(path("t.pftrace")).expect("a file");
    trace.write_all(&encode(TRACE)).expect("written");
    let trace = path("t.pftrace");
    let program = Path::new(PROGRAM);
    run(program, &[&trace, "--export", "sqlite", &path("own.db")]).expect("an export");
    let archive = run(program, &[&trace, "--export", "arrow", "-"]).expect("an export");
    assert!(files(&archive).contains_key("slice.arrow"));
    let classic = folder.path().join("trace_processor_shell");
    std::os::unix::fs::symlink(PROGRAM, &classic).expect("link");
    run(&classic, &["-e", &path("classic.db"), &trace]).expect("an export");
    for name in ["own.db", "classic.db"] {
        let database = Connection::open(path(name)).expect("a database");
        assert_eq!(
            rows(&database, "SELECT count(*) FROM slice"),
            ["Integer(4)"]
        );
    }
    let error = run(program, &[&trace, "--export", "sqlite", &trace]).expect_err("the input");
    assert!(error.contains("t.pftrace"), "{error}");
    assert_eq!(std::fs::read(&trace).expect("read"), encode(TRACE));
    // The tables are not a trace.
    std::fs::write(path("t.tar"), archive).expect("written");
    for (name, reader) in [("own.db", "sqlite3"), ("t.tar", "libraries for Arrow")] {
        let error = run(program, &[&path(name), "SELECT 1"]).expect_err("no trace");
        assert!(error.contains(reader), "{error}");
    }
    // A format that only its writer reads is refused before the trace is read.
    for (program, arguments) in [
        (program, ["none.pftrace", "--export", "perfetto", "x"]),
        (&*classic, ["export", "perfetto", "-o", "none.pftrace"]),
    ] {
        let error = run(program, &arguments).expect_err("refused");
        assert!(error.contains("only the version that wrote"), "{error}");
    }
    let error = run(program, &[&trace, "--export", "xml", "x"]).expect_err("no format");
    assert!(error.contains("sqlite, arrow or parquet"), "{error}");
}
