//! The reference page of all tables.

use std::fmt::Write as _;

use super::TableId;
use crate::column::ColumnKind;

const HEAD: &str = "\
# Tables

The tables of a trace, with the names and columns of Perfetto's trace processor.
[Queries with SQL](query.md) describes how to query them. In SQL, `slice`, `thread` and the others are
views that add the usual names of columns, such as `utid` for `thread.id`; the tables themselves are
`__intrinsic_slice` and so on. `cargo test -p ferretto-tables --test it reference::` checks this page
against the program, and rewrites it with `FERRETTO_WRITE_REFERENCE=1`.

Times and durations are nanoseconds. Booleans are 0 and 1.
";

/// Returns the reference of all tables, in Markdown.
pub fn reference() -> String {
    let mut page = HEAD.to_owned();
    for spec in TableId::ALL.iter().map(|id| id.spec()) {
        let _ = write!(page, "\n## {}\n\n{}\n\n", spec.name, joined(spec.doc));
        page += "| Column | Type | Meaning |\n|---|---|---|\n";
        for column in spec.columns {
            let kind = match column.kind {
                ColumnKind::F64 => "real",
                ColumnKind::Text => "text",
                _ => "integer",
            };
            let null = if column.is_nullable {
                ", may be NULL"
            } else {
                ""
            };
            let name = column.name;
            let doc = joined(column.doc);
            let _ = writeln!(page, "| `{name}` | {kind}{null} | {doc} |");
        }
    }
    page
}

fn joined(lines: &[&str]) -> String {
    let lines: Vec<_> = lines.iter().map(|line| line.trim()).collect();
    lines.join(" ")
}
