//! Hostile SQL, which fails with an error.

use crate::common::{PROGRAM, TRACE, encode, over};
use ferretto_fleet::engine::STACK;

/// Runs a test on a stack of the program's size.
fn on_large_stack(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(STACK);
    let done = thread.spawn(test).expect("a thread").join();
    assert!(done.is_ok());
}

#[test]
fn deep_nesting_is_an_error() {
    on_large_stack(|| {
        let mut session = over(TRACE);
        let deep = 100_000;
        for sql in [
            format!("SELECT {}1{}", "(".repeat(deep), ")".repeat(deep)),
            format!("SELECT {}1", "- ".repeat(deep)),
            format!("SELECT {}1", "NOT ".repeat(deep)),
            format!("SELECT {}", "[".repeat(deep)),
            format!("SELECT 1{}", "[0]".repeat(deep)),
            format!("SELECT {}1{}", "abs(".repeat(deep), ")".repeat(deep)),
            format!(
                "SELECT {}1{}",
                "CASE WHEN 1 THEN ".repeat(deep),
                " END".repeat(deep)
            ),
            format!(
                "{}slice{}",
                "SELECT * FROM (".repeat(deep),
                ")".repeat(deep)
            ),
        ] {
            let error = session.error(&sql);
            assert!(!error.is_empty());
        }
    });
}

#[test]
fn the_operators_of_an_expression_are_limited() {
    on_large_stack(|| {
        let mut session = over(TRACE);
        assert_eq!(session.value(&format!("1{}", "+1".repeat(900))), "901");
        for sql in [
            format!("SELECT 1{}", "+1".repeat(5_000)),
            format!("SELECT 'a'{}", "||'a'".repeat(5_000)),
            format!("SELECT 1{}", "::INT".repeat(5_000)),
            format!("SELECT 1{}", " BETWEEN 0 AND 1".repeat(5_000)),
            format!(
                "SELECT 1 FROM slice WHERE id = 0{}",
                " OR id = 1".repeat(20_000)
            ),
        ] {
            let error = session.error(&sql);
            assert!(error.contains("The expression is too large"), "{error}");
        }
    });
}

#[test]
fn the_tables_that_a_query_joins_are_limited() {
    on_large_stack(|| {
        let mut session = over(TRACE);
        let union = format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(3_000));
        let error = session.error(&union);
        assert!(error.contains("joined by UNION"), "{error}");
        let joined = (0..1_000).map(|n| format!("slice AS s{n}"));
        let joined = joined.collect::<Vec<_>>();
        for between in [", ", " JOIN "] {
            let error = session.error(&format!("SELECT 1 FROM {}", joined.join(between)));
            assert!(error.contains("More than 64 tables"), "{error}");
        }
        let union = format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(300));
        assert_eq!(session.rows(&union).len(), 301);
    });
}

#[test]
fn texts_of_a_megabyte_are_supported() {
    let mut session = over(TRACE);
    let text = "x".repeat(1 << 20);
    assert_eq!(session.value(&format!("length('{text}')")), "1048576");
}

#[test]
fn lists_of_many_values_are_supported() {
    let mut session = over(TRACE);
    let values = (0..10_000).map(|n| n.to_string()).collect::<Vec<_>>();
    let sql = format!("count(*) FROM slice WHERE id IN ({})", values.join(","));
    assert_eq!(session.value(&sql), "4");
}

#[test]
fn the_expansion_of_macros_is_limited() {
    let mut session = over(TRACE);
    let endless = "CREATE PERFETTO MACRO a(x Expr) RETURNS Expr AS b!($x);
        CREATE PERFETTO MACRO b(x Expr) RETURNS Expr AS a!($x); SELECT a!(1)";
    let error = session.error(endless);
    assert!(error.contains("expands without end"), "{error}");
    let mut doubled = "CREATE PERFETTO MACRO m0(x Expr) RETURNS Expr AS $x;".to_owned();
    for level in 1..40 {
        let below = level - 1;
        doubled += &format!(
            "CREATE PERFETTO MACRO m{level}(x Expr) RETURNS Expr AS (m{below}!($x) + m{below}!($x));"
        );
    }
    let error = session.error(&(doubled + "SELECT m39!(1)"));
    assert!(error.contains("Macros expand to more than"), "{error}");
}

#[test]
fn the_expansion_of_functions_is_limited() {
    on_large_stack(|| {
        let mut session = over(TRACE);
        let mut doubled = "CREATE PERFETTO FUNCTION g0(x INT) RETURNS INT AS SELECT $x;".to_owned();
        for level in 1..40 {
            let below = level - 1;
            doubled += &format!(
                "CREATE PERFETTO FUNCTION g{level}(x INT) RETURNS INT AS \
                 SELECT g{below}($x) + g{below}($x);"
            );
        }
        let error = session.error(&doubled);
        assert!(error.contains("too large after its functions"), "{error}");
    });
}

#[test]
fn the_tables_that_views_of_views_read_are_limited() {
    on_large_stack(|| {
        let mut session = over(TRACE);
        for leaf in ["SELECT id FROM slice", "SELECT 1 AS id"] {
            let mut doubled = format!("CREATE OR REPLACE PERFETTO VIEW v0 AS {leaf};");
            for level in 1..15 {
                let below = level - 1;
                doubled += &format!(
                    "CREATE OR REPLACE PERFETTO VIEW v{level} AS \
                     SELECT id FROM v{below} UNION ALL SELECT id FROM v{below};"
                );
            }
            let error = session.error(&doubled);
            assert!(error.contains("reads more than 1000 tables"), "{error}");
        }
        // The same in one statement.
        let mut doubled = "WITH v0 AS (SELECT id FROM slice)".to_owned();
        for level in 1..40 {
            let below = level - 1;
            doubled += &format!(
                ", v{level} AS (SELECT id FROM v{below} UNION ALL SELECT id FROM v{below})"
            );
        }
        let error = session.error(&(doubled + " SELECT count(*) FROM v39"));
        assert!(error.contains("reads more than 1000 tables"), "{error}");
    });
}

#[test]
fn the_columns_of_a_query_are_limited() {
    on_large_stack(|| {
        let mut session = over(TRACE);
        let mut doubled = "CREATE PERFETTO VIEW w0 AS SELECT * FROM slice;".to_owned();
        for level in 1..20 {
            let below = level - 1;
            doubled += &format!(
                "CREATE PERFETTO VIEW w{level} AS SELECT * FROM w{below} AS a, w{below} AS b;"
            );
        }
        let error = session.error(&doubled);
        assert!(error.contains("more than 2000 columns"), "{error}");
    });
}

#[test]
fn endless_recursion_of_functions_ends() {
    on_large_stack(|| {
        let mut session = over(TRACE);
        let endless = "CREATE PERFETTO FUNCTION f(x INT) RETURNS INT AS SELECT f($x + 1)";
        session.csv(endless).expect("a function");
        let error = session.error("SELECT f(id) FROM slice");
        assert!(
            error.contains("calls itself more than 200 times"),
            "{error}"
        );
    });
}

#[test]
fn functions_and_views_cannot_refer_to_themselves() {
    let mut session = over(TRACE);
    let rows = "CREATE PERFETTO FUNCTION f(x INT) RETURNS TABLE(y INT) AS SELECT * FROM f($x)";
    let error = session.error(rows);
    assert!(error.contains("'f' calls itself"), "{error}");
    let error = session.error("SELECT f(1)");
    assert!(error.contains("no function 'f'"), "{error}");
    assert!(!error.contains("Did you mean 'f'"), "{error}");

    let _ = session.csv("CREATE PERFETTO VIEW a AS SELECT 1 AS x");
    for sql in [
        "CREATE OR REPLACE PERFETTO VIEW a AS SELECT * FROM a",
        "CREATE OR REPLACE VIEW a AS SELECT x FROM (SELECT * FROM a)",
        "CREATE VIEW b AS SELECT * FROM b",
    ] {
        let error = session.error(sql);
        assert!(error.contains("it reads itself"), "{error}");
    }
    assert_eq!(session.rows("SELECT * FROM a"), ["1"]);
    // Another relation of the same name is not circular, and a table is computed before it replaces
    // another.
    let csv = session.csv(
        "CREATE OR REPLACE PERFETTO VIEW a AS WITH a AS (SELECT 2 AS x) SELECT * FROM a;
        CREATE PERFETTO TABLE t AS SELECT 3 AS x;
        CREATE OR REPLACE PERFETTO TABLE t AS SELECT x + 1 AS x FROM t;
        SELECT a.x, t.x FROM a, t",
    );
    assert_eq!(csv.expect("rows").lines().last(), Some("2,4"));
}

/// Runs the program over an empty trace within 64 MB of memory for queries, and returns its error.
fn error_within_memory(sql: &str, more: &[&str]) -> String {
    let mut command = crate::common::query();
    // Aborts at far more than the limit.
    command
        .env_clear()
        .args(["--memory-limit", "64M", "--threads", "2"])
        .args(more);
    command.args(["/dev/null", sql]);
    let output = command.output().expect("the program");
    assert_eq!(output.status.code(), Some(1), "{sql}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn functions_without_bounds_do_not_exist() {
    for sql in [
        "SELECT cardinality(range(1, 2000000000))",
        "SELECT length(repeat('x', 2000000000))",
        "SELECT length(lpad('x', 2000000000))",
        "SELECT cardinality(array_repeat(1, 2000000000))",
    ] {
        let error = error_within_memory(sql, &[]);
        assert!(error.contains("unction"), "{sql}: {error}");
    }
}

#[test]
fn pieces_of_intervals_are_counted() {
    let overlapping =
        "SELECT value AS id, value AS ts, 1000000 AS dur FROM generate_series(1, 100000)";
    for sql in [
        format!("SELECT count(*) FROM interval_self_intersect!(({overlapping}))"),
        format!(
            "SELECT count(*) FROM _interval_intersect!((({overlapping}), ({overlapping})), ())"
        ),
    ] {
        let error = error_within_memory(&sql, &[]);
        assert!(error.contains("more memory than allowed"), "{sql}: {error}");
    }
}

#[test]
fn temporary_files_are_limited() {
    let sql = "SELECT value FROM generate_series(1, 20000000) ORDER BY (value * 7919) % 1000003";
    let error = error_within_memory(sql, &["--max-spill", "20M", "--format", "csv"]);
    assert!(error.contains("disk"), "{error}");
}

#[test]
fn texts_of_functions_are_limited() {
    let mut session = over(TRACE);
    let rows = "(SELECT printf('%1000s', value) AS t FROM generate_series(1, 1000))";
    for sql in [
        format!("SELECT sum(length(replace(t, ' ', printf('%1000s', 1)))) FROM {rows}"),
        format!(
            "SELECT length({}t{}) FROM {rows}",
            "hex(".repeat(40),
            ")".repeat(40)
        ),
        format!(
            "SELECT length({}t{}) FROM {rows}",
            "replace(".repeat(40),
            ", ' ', '          ')".repeat(40)
        ),
    ] {
        let error = session.error(&sql);
        assert!(
            error.contains("the most that a function returns"),
            "{error}"
        );
    }
    assert!(
        session
            .error("SELECT generate_series(1, 4000000000)")
            .contains("generate_series")
    );
    let short = session.value("replace('abab', 'b', 'xyz') || hex('a')");
    assert_eq!(short, "\"axyzaxyz61\"");
}

#[test]
fn threads_that_cannot_start_are_an_error() {
    use std::os::unix::process::CommandExt as _;

    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can be several users");
        return;
    }
    // A user without other processes: the limit counts all of them.
    const USER: u32 = 54_322;
    let folder = tempfile::tempdir().expect("folder");
    let trace = folder.path().join("t.pftrace");
    std::fs::write(&trace, encode(TRACE)).expect("trace");
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), permissions).expect("set");
    for threads in [1, 2, 3, 6, 12] {
        let script =
            format!("ulimit -u {threads}; exec \"$0\" \"$1\" 'SELECT count(*) FROM slice'");
        let output = std::process::Command::new("bash")
            .args(["-c", &script, PROGRAM])
            .arg(&trace)
            .uid(USER)
            .gid(USER)
            .output()
            .expect("bash");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        if error.contains("Permission denied") {
            println!("skipped: others may not run the program where it is");
            return;
        }
        assert!(!error.contains("panicked"), "{threads}: {error}");
        assert!(
            output.status.success() || error.contains("cannot start"),
            "{threads}: {error}"
        );
    }
}
