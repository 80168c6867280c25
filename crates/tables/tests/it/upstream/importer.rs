//! Upstream's trace processor, built from upstream's source.

use std::path::{Path, PathBuf};
use std::process::Command;

use ferretto_tables::TableId;
use serde_json::Value;

use crate::upstream::rows::Rows;

/// `trace_processor_shell` in the folder `FERRETTO_UPSTREAM`.
pub(crate) struct Importer {
    program: PathBuf,
    tables: Vec<Known>,
}

/// A table that exists in both.
struct Known {
    ours: &'static str,
    theirs: String,
    columns: Vec<String>,
}

impl Importer {
    /// Returns the trace processor, if there is one.
    pub(crate) fn from_environment() -> Option<Self> {
        let folder = PathBuf::from(std::env::var_os("FERRETTO_UPSTREAM")?);
        let program = folder.join("trace_processor_shell");
        if !program.exists() {
            return None;
        }
        let mut importer = Self {
            program,
            tables: Vec::new(),
        };
        importer.find_tables();
        Some(importer)
    }

    /// Finds the tables and columns that it shares with ours.
    fn find_tables(&mut self) {
        let names = |name: &str| {
            [
                name.to_owned(),
                format!("_{name}"),
                format!("__intrinsic_{name}"),
            ]
        };
        let mut candidates = Vec::new();
        let mut queries = String::new();
        for spec in TableId::ALL.iter().map(|id| id.spec()) {
            for name in names(spec.name) {
                queries += &format!("select json_array(name) from pragma_table_info('{name}');\n");
                candidates.push((spec, name));
            }
        }
        // A trace with one packet without known content.
        let answers = self.query(&queries, b"\x0a\x02\x50\x01");
        for ((spec, theirs), answer) in candidates.into_iter().zip(answers) {
            let has = |name: &str| answer.iter().any(|row| row[0] == name);
            let columns = spec.columns.iter().map(|column| column.name.to_owned());
            let columns: Vec<_> = columns.filter(|name| has(name)).collect();
            let is_first = self.tables.last().is_none_or(|last| last.ours != spec.name);
            if is_first && !columns.is_empty() {
                self.tables.push(Known {
                    ours: spec.name,
                    theirs,
                    columns,
                });
            }
        }
    }

    /// Returns the rows of all tables of a trace.
    pub(crate) fn rows(&self, trace: &[u8]) -> Rows {
        let mut queries = String::new();
        for table in &self.tables {
            let order = if table.columns.iter().any(|column| column == "id") {
                "order by id"
            } else {
                ""
            };
            let (columns, name) = (table.columns.join(","), &table.theirs);
            queries += &format!("select json_array({columns}) from {name} {order};\n");
        }
        let mut rows = Rows::default();
        for (table, answer) in self.tables.iter().zip(self.query(&queries, trace)) {
            rows.add(table.ours, table.columns.clone(), answer);
        }
        rows.resolve_sets();
        rows
    }

    /// Runs queries that return one array in JSON in each row.
    fn query(&self, queries: &str, trace: &[u8]) -> Vec<Vec<Vec<Value>>> {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).expect("a file is written");
            path
        };
        let (script, trace) = (write("sql", queries.as_bytes()), write("trace", trace));
        let text = self.run(&script, &trace);
        let answers = text.trim_start_matches('\n').split("\n\n").map(|answer| {
            let rows = answer.lines().skip(1).filter(|row| !row.is_empty());
            rows.map(|row| {
                let array = row.strip_prefix('"').and_then(|row| row.strip_suffix('"'));
                serde_json::from_str(array.expect("a text")).expect("an array")
            })
            .collect()
        });
        answers.collect()
    }

    fn run(&self, script: &Path, trace: &Path) -> String {
        let output = Command::new(&self.program)
            .args(["query", "-f"])
            .args([script, trace])
            .output()
            .expect("the trace processor runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}
