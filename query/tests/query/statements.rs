//! PerfettoSQL's statements.

use crate::common::Session;

#[test]
fn functions_run_their_queries() {
    let mut session = Session::new();
    session.rows(
        "CREATE PERFETTO FUNCTION f(x LONG) RETURNS LONG AS \
         SELECT id FROM slice WHERE depth = $x ORDER BY dur DESC LIMIT 1 OFFSET 1",
    );
    assert_eq!(
        session.rows("SELECT f(depth) FROM slice WHERE id < 2"),
        ["3", "\"[NULL]\""]
    );
    assert!(
        session
            .error("SELECT f('a')")
            .starts_with("f: the argument 'x' must be of type LONG.")
    );
    let again = "CREATE PERFETTO FUNCTION f() RETURNS LONG AS SELECT 1";
    assert!(
        session
            .error(again)
            .starts_with("The function 'f' exists already.")
    );
}

#[test]
fn functions_may_call_themselves_to_a_depth() {
    let mut session = Session::new();
    let fib = "SELECT CREATE_FUNCTION('fib(n INT)', 'INT', \
        'SELECT CASE WHEN $n < 2 THEN $n ELSE fib($n - 1) + fib($n - 2) END')";
    session.rows(&format!("{fib}; SELECT EXPERIMENTAL_MEMOIZE('fib')"));
    assert_eq!(session.value("fib(60)"), "1548008755920");
    session.rows("CREATE PERFETTO FUNCTION g(n LONG) RETURNS LONG AS SELECT g($n + 1)");
    assert!(session.error("SELECT g(0)").contains("calls are nested"));
}

#[test]
fn table_functions_take_values_of_other_tables() {
    let mut session = Session::new();
    session.rows(
        "CREATE PERFETTO FUNCTION below(limit_ts LONG) RETURNS TABLE(id LONG, n LONG) AS \
         SELECT id, depth AS n FROM slice WHERE ts < $limit_ts",
    );
    assert_eq!(
        session.rows("SELECT id, n FROM below(1015)"),
        ["0,0", "1,1"]
    );
    let sql = "SELECT s.id, count(b.id) FROM slice s LEFT JOIN below(s.ts) b GROUP BY s.id";
    assert_eq!(session.rows(sql), ["0,0", "1,1", "2,2", "3,3"]);
    assert!(
        session
            .error("SELECT * FROM below")
            .contains("takes 1 arguments, not 0")
    );
}

#[test]
fn tables_keep_values_and_order() {
    let mut session = Session::new();
    session.rows(
        "CREATE PERFETTO TABLE t AS SELECT 10 AS a, 'b' AS b UNION ALL SELECT NULL, 'a'
         UNION ALL SELECT 9, NULL",
    );
    assert_eq!(
        session.rows("SELECT a, b FROM t"),
        ["10,\"b\"", "\"[NULL]\",\"a\"", "9,\"[NULL]\""]
    );
    session.rows("CREATE OR REPLACE PERFETTO TABLE t AS SELECT count(*) AS n FROM t");
    assert_eq!(session.rows("SELECT * FROM t"), ["3"]);
    session.rows("CREATE PERFETTO INDEX i ON t(n); CREATE OR REPLACE PERFETTO INDEX i ON t(n); DROP PERFETTO INDEX i ON t");
    assert!(
        session
            .error("CREATE PERFETTO INDEX i ON t(x)")
            .contains("No such column: x")
    );
    assert!(
        session
            .error("CREATE PERFETTO TABLE u(x LONG) AS SELECT 1 AS y")
            .contains("'x'")
    );
}

#[test]
fn query_102_columns_of_tables_have_one_type() {
    let mut session = Session::new();
    session.rows("CREATE PERFETTO TABLE t AS SELECT 1 AS a, 2 AS b UNION ALL SELECT 2.5, 3");
    assert_eq!(
        session.rows("SELECT a, b FROM t"),
        ["1.000000,2", "2.500000,3"]
    );
    let sql = "CREATE PERFETTO TABLE u AS SELECT 1 AS one, 'x' AS a UNION ALL SELECT 2, 3";
    let error = session.error(sql);
    assert!(
        error.contains("The column 'a' of the table 'u' has numbers and texts"),
        "{error}"
    );
    assert!(session.error("SELECT * FROM u").contains("No such table"));
}

#[test]
fn query_102_statements_do_not_change_tables() {
    let mut session = Session::new();
    session.rows("CREATE PERFETTO TABLE kept AS SELECT 1 AS a; CREATE TABLE own(a)");
    for change in [
        "INSERT INTO kept VALUES (2)",
        "UPDATE Kept SET a = 2",
        "DELETE FROM kept",
        "WITH x AS (SELECT 1 AS a) DELETE FROM kept WHERE a IN (SELECT a FROM x)",
        "REPLACE INTO kept SELECT 3",
        "ALTER TABLE kept ADD COLUMN b",
        "ALTER TABLE kept RENAME TO other",
    ] {
        let error = session.error(change);
        assert!(
            error.contains("' cannot be changed, since"),
            "{change}: {error}"
        );
    }
    assert_eq!(session.rows("SELECT * FROM kept"), ["1"]);
    session.rows("INSERT INTO own SELECT a FROM kept; UPDATE own SET a = 5");
    assert_eq!(session.rows("SELECT a FROM own"), ["5"]);
    session.rows("CREATE OR REPLACE PERFETTO TABLE kept AS SELECT a + 1 AS a FROM kept");
    assert_eq!(session.rows("SELECT * FROM kept"), ["2"]);
    session.rows("DROP TABLE kept; CREATE TABLE kept(a); INSERT INTO kept VALUES (3)");
    assert_eq!(session.rows("SELECT * FROM kept"), ["3"]);
}

#[test]
fn indexes_of_the_tables_of_a_trace_are_accepted() {
    let mut session = Session::new();
    session.rows("CREATE PERFETTO INDEX i ON __intrinsic_slice(name, ts)");
    let again = session.error("CREATE PERFETTO INDEX i ON __intrinsic_slice(ts)");
    assert!(again.contains("exists already"), "{again}");
    session.rows("DROP PERFETTO INDEX i ON __intrinsic_slice");
    let error = session.error("CREATE PERFETTO INDEX i ON __intrinsic_slice(absent)");
    assert!(error.contains("No such column: absent"), "{error}");
}

#[test]
fn a_delegate_needs_its_target() {
    let mut session = Session::new();
    let error =
        session.error("CREATE PERFETTO FUNCTION f(x LONG) RETURNS LONG DELEGATES TO nothing");
    assert!(error.contains("cannot delegate to 'nothing'"), "{error}");
    assert!(session.error("SELECT f(1)").contains("No such function: f"));
}

#[test]
fn functions_of_unknown_rows_fail() {
    let mut session = Session::new();
    for function in [
        "ancestor_slice",
        "descendant_slice",
        "directly_connected_flow",
        "following_flow",
        "preceding_flow",
    ] {
        let error = session.error(&format!("SELECT * FROM {function}(12345)"));
        assert!(error.contains("no row with the id 12345"), "{error}");
        let none: [&str; 0] = [];
        assert_eq!(
            session.rows(&format!("SELECT * FROM {function}(NULL)")),
            none
        );
    }
}

#[test]
fn query_108_a_group_that_matches_nothing_stands_for_the_whole_match() {
    let mut session = Session::new();
    for (pattern, expected) in [
        ("x(y*)", "\"x\""),
        ("(q)?x", "\"x\""),
        ("(x)|q", "\"x\""),
        ("b(x)", "\"x\""),
        ("(q)(r)", "\"[NULL]\""),
    ] {
        let value = session.value(&format!("regexp_extract('abxc', '{pattern}')"));
        assert_eq!(value, expected, "{pattern}");
    }
    let error = session.error("SELECT regexp_extract('abxc', '(a)(b)')");
    assert!(error.contains("at most one group"), "{error}");
}

#[test]
fn macros_are_expanded() {
    let mut session = Session::new();
    session.rows(
        "CREATE PERFETTO MACRO twice(x Expr) RETURNS Expr AS ($x * 2);
         CREATE PERFETTO MACRO rows_of(t TableOrSubquery) RETURNS TableOrSubquery AS (SELECT * FROM $t)",
    );
    assert_eq!(
        session.value("twice !(1 + 2), __intrinsic_stringify!(a 'b')"),
        "5,\"a 'b'\""
    );
    assert_eq!(
        session.rows("SELECT count(*) FROM rows_of!(slice) WHERE 1 != 2"),
        ["4"]
    );
    let applied = "__intrinsic_token_apply!(twice, (1, 2))";
    assert_eq!(session.value(applied), "2,4");
    assert!(
        session
            .error("SELECT twise!(1)")
            .contains("Did you mean 'twice'?")
    );
    session.rows("CREATE PERFETTO MACRO m() RETURNS Expr AS m!()");
    assert!(session.error("SELECT m!()").contains("expands without end"));
}

#[test]
fn intervals_are_joined() {
    let mut session = Session::new();
    session.rows(
        "CREATE TABLE a(ts, dur, k, x); INSERT INTO a VALUES (0, 10, 1, 'a'), (10, 10, 1, 'b'), (0, 5, 2, 'c');
         CREATE TABLE b(ts, dur, k, y); INSERT INTO b VALUES (5, 10, 1, 'p'), (100, 0, 2, 'q');
         CREATE VIRTUAL TABLE i USING SPAN_JOIN(a PARTITIONED k, b PARTITIONED k);
         CREATE VIRTUAL TABLE l USING SPAN_LEFT_JOIN(a PARTITIONED k, b PARTITIONED k);
         CREATE VIRTUAL TABLE o USING SPAN_OUTER_JOIN(a PARTITIONED k, b PARTITIONED k)",
    );
    let inner = ["5,5,1,\"a\",\"p\"", "10,5,1,\"b\",\"p\""];
    assert_eq!(session.rows("SELECT * FROM i"), inner);
    assert_eq!(
        session.rows("SELECT ts, x FROM l WHERE y IS NULL"),
        ["0,\"a\"", "15,\"b\"", "0,\"c\""]
    );
    assert_eq!(
        session.rows("SELECT ts, k, x, y FROM o WHERE x IS NULL"),
        ["100,2,\"[NULL]\",\"q\""]
    );
    // Times are read as integers, and NULL, which `lead` has in the last row, as 0.
    session.rows(
        "CREATE TABLE n(ts, dur, k, z); INSERT INTO n VALUES (1.5, '3', 1, 'x'), (12, NULL, 1, 'y');
         CREATE VIRTUAL TABLE m USING SPAN_JOIN(a PARTITIONED k, n PARTITIONED k)",
    );
    assert_eq!(
        session.rows("SELECT ts, dur, x, z FROM m"),
        ["1,3,\"a\",\"x\"", "12,0,\"b\",\"y\""]
    );
    session.rows("DROP TABLE i");
    assert!(
        session
            .error("SELECT * FROM i")
            .starts_with("No such table: i")
    );
    let sql = "SELECT ts, dur, id_0, id_1, k FROM _interval_intersect!(\
        ((SELECT rowid AS id, * FROM a), (SELECT rowid AS id, * FROM b)), (k))";
    assert_eq!(session.rows(sql), ["5,5,1,1,1", "10,5,2,1,1"]);
    let sql = "SELECT ts, right_ts, y FROM asof_join!(a, b, (k)) ORDER BY ts";
    assert_eq!(
        session.rows(sql),
        [
            "0,\"[NULL]\",\"[NULL]\"",
            "0,\"[NULL]\",\"[NULL]\"",
            "10,5,\"p\""
        ]
    );
}

#[test]
fn errors_have_a_position() {
    let mut session = Session::new();
    let error = session.error("SELECT 1;\nSELECT id, nam FROM slice");
    assert_eq!(
        error,
        "No such column: nam.\n  --> line 2, column 12\n2 | SELECT id, nam FROM slice\n  |            ^"
    );
    assert!(
        session
            .error("INCLUDE PERFETTO MODULE sched.state")
            .contains("Did you mean 'sched.states'?")
    );
}

#[test]
fn triggers_are_one_statement() {
    let mut session = Session::new();
    session.rows(
        "CREATE TABLE a(x); CREATE TABLE log(x);
         CREATE TRIGGER t AFTER INSERT ON a BEGIN
           INSERT INTO log VALUES (new.x); INSERT INTO log VALUES (CASE WHEN 1 THEN 2 END);
         END;
         INSERT INTO a VALUES (7)",
    );
    assert_eq!(session.rows("SELECT x FROM log"), ["7", "2"]);
}

#[test]
fn tables_and_the_library_are_described() {
    let mut session = Session::new();
    session.rows("CREATE PERFETTO TABLE t AS SELECT 2 AS a, 'x' AS b UNION ALL SELECT 1, NULL");
    assert_eq!(
        session.rows("SELECT name, col_type, nullable, sorted FROM perfetto_table_info('t')"),
        [
            "\"a\",\"uint32\",0,3",
            "\"b\",\"string\",1,3",
            "\"_auto_id\",\"id\",0,0"
        ]
    );
    session.error("SELECT * FROM perfetto_table_info('none')");
    let sql = "SELECT count(*) > 100, sum(NOT json_valid(args)) + sum(NOT json_valid(cols)) \
        FROM __intrinsic_stdlib_objects";
    assert_eq!(session.rows(sql), ["1,0"]);
    let sql = "SELECT c.value ->> 'type' FROM __intrinsic_stdlib_objects o, json_each(o.cols) c \
        WHERE o.name = 'thread_slice' AND c.value ->> 'name' = 'utid'";
    assert_eq!(session.rows(sql), ["\"JOINID(thread.id)\""]);
    // A remark on the implementation is no description.
    let sql =
        "SELECT short_description FROM __intrinsic_stdlib_objects WHERE name = 'thread_slice'";
    assert_eq!(
        session.rows(sql),
        ["\"Slices of threads with their thread and its process.\""]
    );
}

#[test]
fn layouts_use_free_lines() {
    let mut session = Session::new();
    let sql = "SELECT internal_layout(ts, dur) OVER (ORDER BY ts ROWS UNBOUNDED PRECEDING) \
        FROM (VALUES (1, 4), (2, 0), (3, -1), (5, 2), (9, 1))";
    assert_eq!(
        session.rows(&sql.replace("ts", "column1").replace("dur", "column2")),
        ["0", "1", "1", "0", "0"]
    );
    let sql = "SELECT id, layout_depth FROM experimental_slice_layout(\
        (SELECT group_concat(DISTINCT track_id) FROM slice))";
    assert_eq!(session.rows(sql).len(), 4);
    assert!(
        session
            .rows("SELECT * FROM experimental_slice_layout('x')")
            .is_empty()
    );
    let sql = "SELECT __intrinsic_arg_set_to_json(arg_set_id) ->> '$.debug.number' FROM slice \
        WHERE name = 'outer'";
    assert_eq!(session.rows(sql), ["7"]);
}

#[test]
fn functions_of_any_number_of_arguments_are_delegated() {
    let mut session = Session::new();
    session.rows("CREATE PERFETTO FUNCTION many(args ANY...) RETURNS INT DELEGATES TO hash");
    assert_eq!(
        session.value("many(1, 'a', 2) = hash(1, 'a', 2), many('x') = hash('x')"),
        "1,1"
    );
}

#[test]
fn the_texts_of_a_session_are_logged() {
    let mut session = Session::new();
    session.rows("SELECT 1 AS a");
    let error = session.error("SELECT nothing_there");
    assert!(error.contains("No such column"), "{error}");
    let sql = "SELECT query, started < ended, first_next > 0 FROM sqlstats WHERE ended > 0";
    assert_eq!(
        session.rows(sql),
        ["\"SELECT 1 AS a\",1,1", "\"SELECT nothing_there\",1,0"]
    );
    let sql = "SELECT count(*), sum(ended = 0) FROM sqlstats";
    for _ in 0..100 {
        session.rows(sql);
    }
    assert_eq!(session.rows(sql), ["100,1"]);
}
