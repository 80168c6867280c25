//! Compares our tables with those of upstream's trace processor, row for row.
//!
//! The traces are texts in `tests/data/upstream`, each with the rows of upstream's trace processor
//! (v58.2). Argument sets are compared by their content. With the folder of upstream's programs in
//! `FERRETTO_UPSTREAM`, the program itself is compared too, also with random traces. With
//! `FERRETTO_WRITE_ROWS` as well, the rows are rewritten.

mod importer;
mod random;
mod rows;

use std::fs;
use std::path::{Path, PathBuf};

use importer::Importer;
use rows::Rows;

/// Known differences: lines with the name of a trace and a table, or with a single difference.
const KNOWN: &str = include_str!("../../data/upstream/known");

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/upstream")
}

/// Returns the traces with their names.
fn traces() -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(folder()).expect("the folder of traces");
    let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "textproto"));
    paths.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a text");
        let name = path.file_stem().expect("a name").to_string_lossy();
        (name.into_owned(), crate::common::encode(&text))
    };
    paths.into_iter().map(read).collect()
}

/// Returns the unknown differences.
fn differences(name: &str, upstream: &Rows, trace: &[u8]) -> Vec<String> {
    let ours = Rows::of(&crate::common::import_bytes(trace));
    let mut found = Vec::new();
    for (table, differences) in upstream.differences(&ours) {
        let line = format!("{name} {table}");
        if KNOWN.lines().any(|known| known == line) {
            println!("{name}: {table} differs, as is known");
        } else {
            let all = differences
                .iter()
                .map(|text| format!("{name}: {table}: {text}"));
            found.extend(all.filter(|text| KNOWN.lines().all(|known| known != text)));
        }
    }
    found
}

#[test]
fn rows_are_those_of_upstream() {
    let mut found = Vec::new();
    for (name, trace) in traces() {
        let path = folder().join(&name).with_extension("rows");
        let text = fs::read_to_string(&path).expect("the rows of upstream");
        found.extend(differences(&name, &Rows::parse(&text), &trace));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn upstream_itself_has_these_rows() {
    let Some(importer) = Importer::from_environment() else {
        println!("skipped: FERRETTO_UPSTREAM does not name the folder of upstream's programs");
        return;
    };
    let mut found = Vec::new();
    for (name, trace) in traces() {
        let rows = importer.rows(&trace);
        if std::env::var_os("FERRETTO_WRITE_ROWS").is_some() {
            let path = folder().join(&name).with_extension("rows");
            fs::write(path, rows.to_string()).expect("the rows are written");
        }
        found.extend(differences(&name, &rows, &trace));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn random_traces_have_the_rows_of_upstream() {
    let Some(importer) = Importer::from_environment() else {
        println!("skipped: FERRETTO_UPSTREAM does not name the folder of upstream's programs");
        return;
    };
    random::check(|text| {
        let trace = crate::common::encode(text);
        differences("random", &importer.rows(&trace), &trace)
    });
}
