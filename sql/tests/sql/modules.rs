//! The library of modules.

use crate::common::Session;

#[test]
fn all_modules_can_be_included_and_their_tables_be_read() {
    let mut session = Session::new();
    let names: Vec<String> = session.0.module_names().map(str::to_owned).collect();
    let mut failures = Vec::new();
    for name in names {
        if let Err(error) = session.csv(&format!("INCLUDE PERFETTO MODULE {name}")) {
            failures.push(format!("{name}: {error}"));
        }
    }
    let tables = session.rows("SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND sql NOT LIKE '%USING __perfetto%'");
    for table in tables {
        let name = table.trim_matches('"');
        if let Err(error) = session.csv(&format!("SELECT * FROM \"{name}\" LIMIT 3")) {
            failures.push(format!("{name}: {error}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
