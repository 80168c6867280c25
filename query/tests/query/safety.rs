//! Limits of statements.

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use ferretto_query::Options;

use crate::common::Session;

const ENDLESS: &str =
    "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT max(n) FROM c";

#[test]
fn query_125_statements_reach_no_files() {
    let mut session = Session::new();
    let folder = std::env::temp_dir().join(format!("ferretto-query-{}", std::process::id()));
    let file = folder.join("x.db");
    std::fs::create_dir_all(&folder).expect("folder");
    for sql in [
        format!("ATTACH '{}' AS x", file.display()),
        format!("VACUUM INTO '{}'", file.display()),
        format!("PRAGMA temp_store_directory = '{}'", folder.display()),
        "PRAGMA writable_schema = 1".to_owned(),
        "PRAGMA hard_heap_limit = 0".to_owned(),
        "SELECT load_extension('x')".to_owned(),
        "SELECT fts3_tokenizer('x')".to_owned(),
        "SELECT writefile('x', 'x')".to_owned(),
        "SELECT readfile('x')".to_owned(),
        "SELECT edit('x')".to_owned(),
        "CREATE VIRTUAL TABLE f USING fts5(a)".to_owned(),
    ] {
        let error = session.error(&sql).to_ascii_lowercase();
        assert!(
            error.contains("not authorized")
                || error.contains("authorization denied")
                || error.contains("no such function"),
            "{sql}: {error}"
        );
    }
    assert_eq!(std::fs::read_dir(&folder).expect("folder").count(), 0);
    std::fs::remove_dir_all(&folder).expect("removed");
    assert!(session.rows("PRAGMA table_info(slice)").len() > 10);
}

#[test]
fn statements_end_at_their_timeout() {
    let mut session = Session::with(&Options {
        timeout_ms: 1,
        ..Options::default()
    });
    assert!(
        session
            .error(ENDLESS)
            .starts_with("The query took longer than 1ms.")
    );
    assert_eq!(session.value("1"), "1");
}

#[test]
fn statements_are_cancelled_from_other_threads() {
    let mut session = Session::new();
    let interrupt = session.0.interrupt();
    let (done, ended) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        // Dropped at a failure, too.
        let done = done;
        // The statement may not have begun yet, so it is cancelled until it ends.
        scope.spawn(move || {
            while ended.recv_timeout(Duration::from_millis(1)) == Err(RecvTimeoutError::Timeout) {
                interrupt.interrupt();
            }
        });
        assert!(
            session
                .error(ENDLESS)
                .starts_with("The query was cancelled.")
        );
        drop(done);
    });
}

#[test]
fn recursion_with_a_limit_ends() {
    let mut session = Session::new();
    let sql = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 5) SELECT sum(n) FROM c";
    assert_eq!(session.rows(sql), ["15"]);
}

#[test]
fn hostile_texts_are_refused() {
    let mut session = Session::new();
    for sql in [
        "",
        ";;",
        "SELECT 'a",
        "SELECT (",
        "CREATE PERFETTO",
        "CREATE PERFETTO TABLE",
        "m!(",
        "SELECT m!(1",
        "CREATE PERFETTO MACRO m(x Expr) RETURNS Expr AS",
        "SELECT \0",
        "CREATE VIRTUAL TABLE x USING SPAN_JOIN(a)",
        "CREATE VIRTUAL TABLE x USING __perfetto_relation",
        "SELECT * FROM __perfetto_as_of(1, 2)",
        "SELECT __intrinsic_token_apply!()",
        "INCLUDE PERFETTO MODULE ../x",
    ] {
        session.error(sql);
    }
    let deep = format!("SELECT {}1{}", "(".repeat(100_000), ")".repeat(100_000));
    session.error(&deep);
    assert_eq!(session.value("1"), "1");
}

/// Runs the program over an empty trace and returns its error.
fn error_with_limit(limit: &str, sql: &str) -> String {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_ferretto-query"))
        .args(["--memory-limit", limit, "/dev/null", sql])
        .output()
        .expect("the program runs");
    assert!(!output.status.success(), "{sql}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn rows_that_operators_hold_are_limited() {
    // Printed as a table, whose first rows decide the widths of columns.
    let rows = "SELECT printf('%.1000000c', 'x') FROM generate_series(1, 200)";
    let output = std::process::Command::new("bash")
        .args(["-c", "ulimit -v 700000; exec \"$0\" \"$@\" | wc -l"])
        .arg(crate::common::PROGRAM)
        .args([
            "--memory-limit",
            "32M",
            "--threads",
            "1",
            "--format",
            "table",
        ])
        .args(["/dev/null", rows])
        .output()
        .expect("the program runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "202");
    let numbers =
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 100000) SELECT";
    let long = "printf('%.1000c', 'x') || n";
    for sql in [
        "SELECT length(regexp_replace_simple(printf('%.1000000c', 'x'), 'x', printf('%.1000c', 'y')))"
            .to_owned(),
        format!("{numbers} __perfetto_rows({long}) FROM c"),
        format!("{numbers} __intrinsic_row_dataframe_agg('id', n, 'x', {long}) FROM c"),
        format!("{numbers} last_non_null({long}) FROM c"),
        format!("{numbers} group_concat({long}) FROM c"),
        format!(
            "CREATE PERFETTO FUNCTION f() RETURNS TABLE(x STRING) AS {numbers} {long} AS x FROM c; \
             SELECT count(*) FROM f()"
        ),
        format!(
            "CREATE PERFETTO FUNCTION g(n LONG) RETURNS STRING AS SELECT printf('%.1000c', 'x'); \
             SELECT EXPERIMENTAL_MEMOIZE('g'); {numbers} sum(length(g(n))) FROM c"
        ),
        format!(
            "CREATE TABLE a AS {numbers} 0 AS ts, 10 AS dur, n AS x FROM c LIMIT 2000; \
             CREATE TABLE b AS SELECT ts, dur, x AS y FROM a; \
             CREATE VIRTUAL TABLE s USING SPAN_JOIN(a, b); SELECT count(*) FROM s"
        ),
    ] {
        let error = error_with_limit("33554432", &sql);
        assert!(
            error.contains("more memory than the limit")
                || error.contains("larger than a quarter of the memory limit"),
            "{sql}: {error}"
        );
    }
}

#[test]
fn operators_end_at_their_timeout() {
    let mut session = Session::with(&Options {
        timeout_ms: 100,
        ..Options::default()
    });
    let sql = "SELECT count(*) FROM interval_self_intersect!((\
        WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 20000) \
        SELECT n AS id, n AS ts, 1000000 AS dur FROM c))";
    let error = session.error(sql);
    assert!(
        error.starts_with("The query took longer than 100ms."),
        "{error}"
    );
}

#[test]
fn functions_that_call_each_other_are_nested_to_a_depth() {
    let mut session = Session::new();
    session.rows(
        "CREATE PERFETTO FUNCTION f0(n LONG) RETURNS LONG AS SELECT 0;
         CREATE PERFETTO FUNCTION f1(n LONG) RETURNS LONG AS SELECT f0($n + 1);
         CREATE PERFETTO FUNCTION f2(n LONG) RETURNS LONG AS SELECT f1($n + 1);
         CREATE OR REPLACE PERFETTO FUNCTION f0(n LONG) RETURNS LONG AS
           SELECT iif($n > 450, 0, f2($n + 1))",
    );
    assert!(session.error("SELECT f0(0)").contains("calls are nested"));
    assert_eq!(session.value("f0(400)"), "0");
}

#[test]
fn macros_expand_to_limited_texts() {
    let mut session = Session::new();
    let long = "x".repeat(1 << 16);
    session.rows("CREATE PERFETTO MACRO twice(t Expr) RETURNS Expr AS $t || $t");
    let mut sql = format!("'{long}'");
    for _ in 0..20 {
        sql = format!("twice!({sql})");
    }
    let error = session.error(&format!("SELECT length({sql})"));
    assert!(
        error.contains("Macros expand to more than"),
        "{}",
        &error[..100]
    );
    let mut join = "slice".to_owned();
    for _ in 0..12 {
        join = format!("asof_join!({join}, slice, (track_id))");
    }
    let error = session.error(&format!("SELECT count(*) FROM {join}"));
    assert!(!error.is_empty());
}

#[test]
fn concatenated_texts_end_at_their_limit() {
    let mut session = Session::with(&Options {
        memory_limit: 64 << 20,
        timeout_ms: 60_000,
    });
    // The rows after the longest text would take days.
    let rows = "FROM generate_series(1, 1000000000000)";
    for call in [
        "group_concat(printf('%.1000c', 'x'))",
        "string_agg(printf('%.1000c', 'x'), '')",
        "json_group_array(printf('%.1000c', 'x'))",
        "json_group_object(value, printf('%.1000c', 'x'))",
    ] {
        let error = session.error(&format!("SELECT length({call}) {rows}"));
        assert!(error.contains("memory limit"), "{call}: {error}");
    }
    let windows = "SELECT length(group_concat(printf('%.100000c', 'x')) OVER (ORDER BY value)) FROM \
        generate_series(1, 300) LIMIT 1 OFFSET 299";
    let error = session.error(windows);
    assert!(error.contains("memory limit"), "{error}");
    // A window that moves on holds few of the 100 MB.
    let moving = "(SELECT max(length(t)) FROM (SELECT group_concat(printf('%.10000c', 'x')) OVER \
        (ORDER BY value ROWS 2 PRECEDING) AS t FROM generate_series(1, 10000)))";
    assert_eq!(session.value(moving), "30002");
}

#[test]
fn threads_that_cannot_start_are_an_error() {
    use std::os::unix::process::CommandExt as _;

    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can be several users");
        return;
    }
    // A user without other processes: the limit counts all of them.
    const USER: u32 = 54_321;
    let query: [&str; 2] = ["/dev/null", "SELECT 1"];
    let serve: [&str; 3] = ["--serve", "--port", "0"];
    for (threads, arguments) in [(1, &query[..]), (2, &query), (1, &serve), (2, &serve)] {
        let script = format!("ulimit -u {threads}; exec \"$0\" \"$@\"");
        let output = std::process::Command::new("bash")
            .args(["-c", &script, crate::common::PROGRAM])
            .args(arguments)
            .uid(USER)
            .gid(USER)
            .output()
            .expect("bash");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        if error.contains("Permission denied") {
            println!("skipped: others may not run the program where it is");
            return;
        }
        let is_enough = threads > 1 && arguments == query;
        assert_eq!(output.status.success(), is_enough, "{threads}: {error}");
        assert!(!error.contains("panicked"), "{threads}: {error}");
        assert!(
            is_enough || error.contains("cannot start"),
            "{threads}: {error}"
        );
    }
}
