//! Rows of groups, which tables sort themselves.

use std::sync::Arc;

use ferretto_tables::Trace;

use crate::common::{Random, Session, TRACE, over, query};

/// Returns the columns of a table.
fn columns(s: &mut Session, table: &str) -> Vec<String> {
    let names = s.rows(&format!("SELECT name FROM pragma_table_info('{table}')"));
    names.iter().map(|name| name.replace('"', "")).collect()
}

#[test]
fn groups_and_distinct_rows_are_those_of_sqlite() {
    let mut s = Session::new();
    let mut random = Random(7);
    let mut grouped = 0;
    for table in [
        "slice",
        "thread",
        "process",
        "sched",
        "thread_state",
        "args",
        "track",
    ] {
        let columns = columns(&mut s, table);
        assert!(!columns.is_empty(), "{table}");
        for _ in 0..30 {
            let mut pick = || columns[random.below(columns.len() as u64) as usize].clone();
            let (one, other) = (pick(), pick());
            let direction = ["", " DESC"][random.below(2) as usize];
            for sql in [
                format!("SELECT #{one}, count(*), group_concat(id) FROM {table} GROUP BY #{one}"),
                format!(
                    "SELECT #{one}, #{other}, group_concat(id) FROM {table} GROUP BY #{one}, #{other}
                     ORDER BY #{one}{direction}, #{other}"
                ),
                format!(
                    "SELECT #{one}, max(id) FROM {table} WHERE id > 1 GROUP BY #{one} ORDER BY #{one}{direction}"
                ),
                format!("SELECT DISTINCT #{one}, #{other} FROM {table} ORDER BY #{other}{direction}, #{one}"),
                format!("SELECT count(*) FROM (SELECT DISTINCT #{one}, #{other} FROM {table})"),
            ] {
                // A column behind a plus is an expression, which SQLite sorts itself.
                let (own, expected) = (sql.replace('#', ""), sql.replace('#', "+"));
                assert_eq!(s.rows(&own), s.rows(&expected), "{own}");
                grouped += 1;
            }
        }
    }
    assert_eq!(grouped, 7 * 30 * 5);
}

#[test]
fn values_of_many_found_and_sorted_rows_are_those_of_a_scan() {
    let events: Vec<String> = (0..3000)
        .map(|at| {
            let (name, dur, tid) = (at * at % 11, at * 7919 % 97, at % 3);
            format!(
                r#"{{"ph":"X","name":"n{name}","ts":{},"dur":{dur},"pid":1,"tid":{tid}}}"#,
                at * 100
            )
        })
        .collect();
    let text = format!("[{}]", events.join(","));
    let trace = Trace::read(text.as_bytes(), &ferretto_tables::Options::default());
    let mut s = Session::of(&Arc::new(trace.expect("a trace")));
    for sql in [
        "SELECT id, ts, name, dur, depth FROM slice WHERE #track_id = 1",
        "SELECT id, dur, name, ts FROM slice WHERE #track_id = 1 ORDER BY #name, #id",
        "SELECT #dur, group_concat(id || name || ts), sum(ts) FROM slice GROUP BY #dur",
        "SELECT #name, sum(dur), min(ts), max(id) FROM slice WHERE #track_id = 2 GROUP BY #name",
        // Columns that are read of some rows only.
        "SELECT id, iif(id % 1000 < 300, name, dur), iif(id % 700 = 1, ts, 0) FROM slice WHERE #track_id = 0",
        // Rows are found again and again, and not read to their end.
        "SELECT t.id, s.ts, s.name FROM track t JOIN slice s ON #s.track_id = t.id ORDER BY s.id, t.id",
        "SELECT t.id, (SELECT s.dur FROM slice s WHERE #s.track_id = t.id AND s.dur > 90 LIMIT 1 OFFSET 30) FROM track t",
    ] {
        // A column behind a plus is an expression, for which SQLite reads all rows.
        let (own, expected) = (sql.replace('#', ""), sql.replace('#', "+"));
        let rows = s.rows(&own);
        assert!(rows.len() > 2, "{own}");
        assert_eq!(rows, s.rows(&expected), "{own}");
    }
}

#[test]
fn groups_need_no_sorting_by_sqlite() {
    let mut s = over(TRACE);
    for sql in [
        "SELECT name, count(*), sum(dur) FROM slice GROUP BY name",
        "SELECT name, sum(dur) FROM slice WHERE track_id = 0 GROUP BY name",
        "SELECT utid, sum(dur) FROM sched GROUP BY utid",
    ] {
        let plan = s.rows(&format!("EXPLAIN QUERY PLAN {sql}")).join("\n");
        assert!(!plan.contains("TEMP B-TREE"), "{sql}: {plan}");
    }
    // The first rows of all are found without sorting all.
    let plan = s.rows("EXPLAIN QUERY PLAN SELECT name FROM slice ORDER BY dur DESC LIMIT 1");
    assert!(plan.join("\n").contains("TEMP B-TREE"), "{plan:?}");
}

#[test]
fn sorting_for_groups_is_within_the_memory_limit() {
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("t.json");
    let events: Vec<String> = (0..200_000)
        .map(|at| {
            format!(
                r#"{{"ph":"X","name":"n{}","ts":{at},"dur":1,"pid":1,"tid":1}}"#,
                at % 7
            )
        })
        .collect();
    std::fs::write(&file, format!("[{}]", events.join(","))).expect("file");
    let sql = "SELECT name, count(*) AS n FROM slice GROUP BY name";
    // The memory of each statement is given back at its end.
    let sql = format!("{sql};").repeat(3);
    let run = |limit: &str| {
        let mut command = query();
        command.args(["--memory-limit", limit]).arg(&file).arg(&sql);
        command.output().expect("program")
    };
    let (small, large) = (run("8M"), run("24M"));
    let error = String::from_utf8_lossy(&small.stderr);
    assert!(!small.status.success());
    assert!(error.contains("more memory than the limit"), "{error}");
    let error = String::from_utf8_lossy(&large.stderr);
    assert!(large.status.success(), "{error}");
    let rows = String::from_utf8_lossy(&large.stdout);
    assert!(rows.contains("\"n6\",28571"), "{rows}");
}
