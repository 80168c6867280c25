//! Limits of statements.

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use ferretto_sql::Options;

use crate::common::Session;

const ENDLESS: &str =
    "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT max(n) FROM c";

#[test]
fn statements_reach_no_files() {
    let mut session = Session::new();
    let folder = std::env::temp_dir().join(format!("ferretto-sql-{}", std::process::id()));
    let file = folder.join("x.db");
    std::fs::create_dir_all(&folder).expect("folder");
    for sql in [
        format!("ATTACH '{}' AS x", file.display()),
        format!("VACUUM INTO '{}'", file.display()),
        format!("PRAGMA temp_store_directory = '{}'", folder.display()),
        "PRAGMA writable_schema = 1".to_owned(),
        "PRAGMA hard_heap_limit = 0".to_owned(),
        "SELECT load_extension('x')".to_owned(),
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
