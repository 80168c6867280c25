//! SQLite's SQL, and the statements of PerfettoSQL.

use crate::common::Session;

#[test]
fn query_100_aggregates_and_bare_columns_work_as_in_sqlite() {
    let mut s = Session::new();
    let table = "(SELECT 1 AS a, 'x' AS b UNION ALL SELECT 2, 'y' UNION ALL SELECT 2, 'z')";
    let mut check = |sql: &str, expected: &[&str]| {
        assert_eq!(s.rows(&sql.replace("TABLE", table)), expected, "{sql}");
    };
    check(
        "SELECT sum(a > 1), count(*), total(a), avg(a > 1) FROM TABLE",
        &["2,3,5.000000,0.666667"],
    );
    check(
        "SELECT sum(a), total(a) FROM TABLE WHERE a > 5",
        &["\"[NULL]\",0.000000"],
    );
    check(
        "SELECT a, max(b), count() FROM TABLE GROUP BY 1 ORDER BY 1",
        &["1,\"x\",1", "2,\"z\",2"],
    );
    // Columns beside a maximum are from its row.
    check(
        "SELECT b, max(a) FROM (SELECT * FROM TABLE WHERE b <> 'z')",
        &["\"y\",2"],
    );
    check("SELECT b, min(a) FROM TABLE", &["\"x\",1"]);
    check(
        "SELECT a AS n, b FROM TABLE WHERE b = 'x' GROUP BY n",
        &["1,\"x\""],
    );
    check(
        "SELECT group_concat(b ORDER BY b) FROM TABLE WHERE a = 2",
        &["\"y,z\""],
    );
    check(
        "SELECT a FROM TABLE WHERE a GROUP BY a HAVING count(*) > 1",
        &["2"],
    );
    check(
        "SELECT count(DISTINCT a), sum(a) FILTER (WHERE b = 'z') FROM TABLE",
        &["2,2"],
    );
}

#[test]
fn query_100_names_of_columns_are_their_text_in_the_query() {
    let mut s = Session::new();
    let header = |s: &mut Session, sql: &str| {
        s.csv(sql)
            .expect("rows")
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let table = "FROM (SELECT 1 AS dur, 'x' AS name) s";
    let check = [
        ("count(*), sum(dur)", "\"count(*)\",\"sum(dur)\""),
        ("s.dur, name AS Label, 1+1", "\"dur\",\"Label\",\"1+1\""),
        ("*, 2 AS two", "\"dur\",\"name\",\"two\""),
        ("name, name", "\"name\",\"name\""),
        ("s.*, dur", "\"dur\",\"name\",\"dur\""),
        ("max(dur) total", "\"total\""),
    ];
    for (items, expected) in check {
        assert_eq!(header(&mut s, &format!("SELECT {items} {table}")), expected);
    }
    assert_eq!(
        s.rows(&format!("SELECT \"NAME\", \"no such column\" {table}")),
        ["\"x\",\"no such column\""]
    );
}

#[test]
fn views_read_relations_and_functions_that_replace_earlier_ones() {
    let mut s = Session::new();
    s.csv(
        "CREATE PERFETTO TABLE t AS SELECT 1 AS ts, 10 AS dur;
         CREATE PERFETTO FUNCTION f(x INT) RETURNS INT AS SELECT $x + 1;
         CREATE PERFETTO VIEW direct AS SELECT * FROM t;
         CREATE VIEW indirect AS SELECT f(dur) AS dur FROM direct;
         CREATE PERFETTO TABLE copy AS SELECT * FROM direct;
         CREATE PERFETTO TABLE other AS SELECT 5 AS ts, 100 AS dur;
         CREATE VIRTUAL TABLE both USING SPAN_JOIN(direct, other)",
    )
    .expect("views");
    assert_eq!(s.rows("SELECT dur FROM indirect"), ["11"]);
    assert_eq!(s.rows("SELECT ts, dur FROM both"), ["5,6"]);

    s.csv("CREATE OR REPLACE PERFETTO TABLE t AS SELECT 2 AS ts, 20 AS dur, 'new' AS name")
        .expect("replaced");
    assert_eq!(s.rows("SELECT * FROM direct"), ["2,20,\"new\""]);
    assert_eq!(s.rows("SELECT dur FROM indirect"), ["21"]);
    assert_eq!(s.rows("SELECT ts, dur FROM both"), ["5,17"]);
    assert_eq!(s.rows("SELECT * FROM copy"), ["1,10"], "a table is kept");

    s.csv("CREATE OR REPLACE PERFETTO FUNCTION f(x INT) RETURNS INT AS SELECT $x + 2")
        .expect("replaced");
    assert_eq!(s.rows("SELECT dur FROM indirect"), ["22"]);
    s.csv("CREATE OR REPLACE PERFETTO VIEW direct AS SELECT 7 AS dur")
        .expect("replaced");
    assert_eq!(s.rows("SELECT dur FROM indirect"), ["9"]);

    // Views of a dropped relation fail until it is created again.
    s.csv("DROP VIEW direct").expect("dropped");
    let error = s.error("SELECT * FROM indirect");
    assert!(error.contains("direct"), "{error}");
    s.csv("CREATE VIEW direct AS SELECT 8 AS dur")
        .expect("again");
    assert_eq!(s.rows("SELECT dur FROM indirect"), ["10"]);
}

#[test]
fn query_105_macros_expand_and_unknown_ones_are_named() {
    let mut s = Session::new();
    s.csv(
        "CREATE PERFETTO MACRO pick(source TableOrSubquery, columns ColumnNameList)
           RETURNS TableOrSubquery AS (SELECT $columns FROM $source);
         CREATE PERFETTO MACRO twice(x Expr) RETURNS Expr AS ($x + $x)",
    )
    .expect("macros");
    assert_eq!(
        s.rows("SELECT * FROM pick!((SELECT 1 AS a, twice!(2) AS b), (b))"),
        ["4"]
    );
    let error = s.error("SELECT * FROM pikc!(a, b)");
    assert!(
        error.contains("'pikc'") && error.contains("'pick'"),
        "{error}"
    );
    assert!(s.error("SELECT twice!(1, 2)").contains("takes 1 arguments"));
    s.csv("CREATE PERFETTO MACRO endless(x Expr) RETURNS Expr AS endless!($x)")
        .expect("macro");
    assert!(
        s.error("SELECT endless!(1)")
            .contains("expands without end")
    );
    assert_eq!(s.value("__intrinsic_stringify!(a + b)"), "\"a + b\"");
    assert_eq!(s.value("__intrinsic_token_apply!(twice, (1, 2))"), "2,4");
}

#[test]
fn query_106_modules_are_included_once() {
    let mut s = Session::new();
    let add = |s: &mut Session, name: &str, sql: &str| {
        s.add_module(name, sql);
    };
    add(&mut s, "my.a", "CREATE PERFETTO TABLE a AS SELECT 1 AS x");
    add(
        &mut s,
        "my.b",
        "INCLUDE PERFETTO MODULE my.a; CREATE PERFETTO VIEW b AS SELECT x FROM a",
    );
    add(&mut s, "ring.a", "INCLUDE PERFETTO MODULE ring.b");
    add(&mut s, "ring.b", "INCLUDE PERFETTO MODULE ring.a");
    s.csv("INCLUDE PERFETTO MODULE my.a; INCLUDE PERFETTO MODULE my.a")
        .expect("no-op");
    assert_eq!(
        s.rows("INCLUDE PERFETTO MODULE my.*; SELECT x FROM b"),
        ["1"]
    );
    assert!(
        s.error("INCLUDE PERFETTO MODULE ring.a")
            .contains("includes itself")
    );
    let error = s.error("INCLUDE PERFETTO MODULE slices.with_contxt");
    assert!(error.contains("'slices.with_context'"), "{error}");
}

#[test]
fn query_114_last_non_null_and_value_at_max_ts_return_last_values() {
    let mut s = Session::new();
    let table = "(SELECT 1 AS ts, NULL AS v UNION ALL SELECT 2, 5 UNION ALL SELECT 3, NULL)";
    assert_eq!(
        s.rows(&format!(
            "SELECT last_non_null(v) OVER (ORDER BY ts) FROM {table} ORDER BY ts"
        )),
        ["\"[NULL]\"", "5", "5"]
    );
    let table = "(SELECT 1 AS ts, 'a' AS v UNION ALL SELECT 3, 'b' UNION ALL SELECT 2, 'c')";
    assert_eq!(
        s.rows(&format!("SELECT value_at_max_ts(ts, v) FROM {table}")),
        ["\"b\""]
    );
}

#[test]
fn query_117_csv_has_upstreams_format() {
    let mut s = Session::new();
    assert_eq!(
        s.csv("select 1 as a, null as b, 0.5 as c, 'x' as d")
            .expect("rows"),
        "\"a\",\"b\",\"c\",\"d\"\n1,\"[NULL]\",0.500000,\"x\"\n"
    );
}

#[test]
fn query_118_empty_results_have_headers_and_results_are_separated() {
    let mut s = Session::new();
    assert_eq!(s.csv("SELECT 1 AS a WHERE 0").expect("rows"), "\"a\"\n");
    assert_eq!(
        s.csv("SELECT 1 AS a; SELECT 2 AS b").expect("rows"),
        "\"a\"\n1\n\n\"b\"\n2\n"
    );
    assert_eq!(
        s.csv("SELECT 1 AS suppress_query_output").expect("rows"),
        ""
    );
}

#[test]
fn with_is_recursive_without_the_keyword() {
    let mut s = Session::new();
    let sql = "WITH n AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM n WHERE x < 4) SELECT x FROM n";
    assert_eq!(s.rows(sql), ["1", "2", "3", "4"]);
}

#[test]
fn rows_have_the_order_of_sqlite() {
    let mut s = Session::new();
    assert_eq!(
        s.rows(
            "WITH a AS (SELECT * FROM (VALUES (3), (1), (2)) ORDER BY 1)
             SELECT * FROM a UNION ALL SELECT 9 UNION ALL SELECT 8"
        ),
        ["1", "2", "3", "9", "8"]
    );
    assert_eq!(
        s.rows("SELECT column1, count(*) FROM (VALUES ('b'), ('a'), ('b')) GROUP BY column1"),
        ["\"a\",1", "\"b\",2"]
    );
    assert_eq!(
        s.rows(
            "SELECT t.column1 FROM (VALUES (2)) t UNION SELECT u.column1 FROM (VALUES (1)) u
             ORDER BY t.column1"
        ),
        ["1", "2"]
    );
}

#[test]
fn tables_in_parentheses_may_be_separated_by_commas() {
    let mut s = Session::new();
    assert_eq!(
        s.rows("SELECT * FROM ((SELECT 1 AS a, 2 AS b), (SELECT 3 AS c), (VALUES (4), (5)))"),
        ["1,2,3,4", "1,2,3,5"]
    );
    assert_eq!(
        s.rows(
            "WITH t(x) AS (VALUES (1), (2))
             SELECT t.x, u.y FROM t JOIN (SELECT x, x * 10 AS y FROM t) u USING (x)"
        ),
        ["1,10", "2,20"]
    );
}

#[test]
fn joins_and_windows_work_as_in_sqlite() {
    let mut s = Session::new();
    s.rows("CREATE PERFETTO TABLE t AS VALUES (1, 10), (2, 20)");
    assert_eq!(
        s.rows("SELECT lead(column1, 1, column2) OVER (ORDER BY column1) FROM t"),
        ["2", "20"]
    );
    assert_eq!(
        s.rows("SELECT a.column1 FROM t a CROSS JOIN t b USING (column1)"),
        ["1", "2"]
    );
    assert_eq!(
        s.rows(
            "SELECT column1, internal_layout(ts, dur) OVER (ORDER BY ts) FROM (
               SELECT column1, column1 AS ts, column2 AS dur
               FROM (VALUES (1, 5), (2, 1), (3, 0), (4, -1), (9, 1)))"
        ),
        ["1,0", "2,1", "3,1", "4,1", "9,0"]
    );
    assert_eq!(s.value("ceil(5) || trunc(-1.5) || exp('x')"), "\"[NULL]\"");
    assert_eq!(s.value("typeof(ceil(5))"), "\"integer\"");
    assert_eq!(s.value("unhex('  0X1f ')"), "31");
}

#[test]
fn query_100_texts_are_concatenated_as_in_sqlite() {
    let mut s = Session::new();
    let table = "(SELECT 1 AS id, 'a' AS v, '+' AS s UNION ALL SELECT 2, NULL, '-' \
        UNION ALL SELECT 3, 2.5, '--' UNION ALL SELECT 4, x'6263', NULL UNION ALL SELECT 5, 7, '/')";
    let mut check = |sql: &str, expected: &[&str]| {
        assert_eq!(s.rows(&sql.replace("TABLE", table)), expected, "{sql}");
    };
    check(
        "SELECT group_concat(v), group_concat(v, s), string_agg(v, '; ') FROM TABLE",
        &["\"a,2.5,bc,7\",\"a--2.5bc/7\",\"a; 2.5; bc; 7\""],
    );
    check(
        "SELECT group_concat(v) IS NULL, group_concat('') FROM TABLE WHERE id = 2",
        &["1,\"\""],
    );
    check(
        "SELECT group_concat(1e100), group_concat(0.1), group_concat(-1e-7), group_concat(3.0)",
        &["\"1.0e+100\",\"0.1\",\"-1.0e-07\",\"3.0\""],
    );
    check(
        "SELECT group_concat(v, s) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) \
         FROM TABLE",
        &[
            "\"a\"",
            "\"a--2.5\"",
            "\"2.5bc\"",
            "\"2.5bc/7\"",
            "\"bc/7\"",
        ],
    );
    check(
        "SELECT group_concat(DISTINCT v) FROM (SELECT v FROM TABLE UNION ALL SELECT v FROM TABLE)",
        &["\"a,2.5,bc,7\""],
    );
    check(
        "SELECT json_group_array(v), json_group_object(s, id) FROM (SELECT * FROM TABLE WHERE id <> 4)",
        &[r#""["a",null,2.5,7]","{"+":1,"-":2,"--":3,"/":5}""#],
    );
    check(
        "SELECT json_group_array(id), json_group_object(v, id) FROM TABLE WHERE id > 5",
        &[r#""[]","{}""#],
    );
    check(
        "SELECT json_group_array(json_array(id, 'q\"')) FROM TABLE WHERE id < 3",
        &[r#""[[1,"q\""],[2,"q\""]]""#],
    );
    check(
        "SELECT json_array(json_group_array('a' || char(10)), json_group_array(1e100))",
        &[r#""[["a\n"],[1.0e+100]]""#],
    );
    check(
        "SELECT json_group_array(id) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) \
         FROM TABLE WHERE id < 4",
        &[r#""[1]""#, r#""[1,2]""#, r#""[2,3]""#],
    );
}
