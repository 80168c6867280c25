//! SQLite's SQL, and the statements of PerfettoSQL.

use crate::common::Session;

#[test]
fn query_100_numbers_compare_and_divide_as_in_sqlite() {
    let mut s = Session::new();
    let cases = [
        ("1/2", "0"),
        ("-7/2", "-3"),
        ("7%0", "\"[NULL]\""),
        ("1/0", "\"[NULL]\""),
        ("1.0/0", "\"[NULL]\""),
        ("1/2.0", "0.500000"),
        ("'10' > 9", "1"),
        ("9 < '10'", "1"),
        ("'1' = 1", "0"),
        ("1 = 1.0", "1"),
        ("'1' + '2x'", "3.000000"),
        ("1 IS NULL", "0"),
        ("NULL IS NULL", "1"),
        ("1 IS 1", "1"),
        ("NULL IS NOT 2", "1"),
        ("NOT 5", "0"),
        ("2 AND 3", "1"),
        ("0 OR NULL", "\"[NULL]\""),
        ("1 == 1", "1"),
        ("'a' || 1 || NULL", "\"[NULL]\""),
        ("'a' || 1", "\"a1\""),
        ("CASE WHEN 2 THEN 'y' ELSE 'n' END", "\"y\""),
        ("iif(0, 'a', 'b')", "\"b\""),
        ("max(1, 3, 2)", "3"),
        ("min('b', 'a')", "\"a\""),
        ("max(1, NULL)", "\"[NULL]\""),
        ("CAST('12ab' AS INT)", "12"),
        ("CAST(3.9 AS INT)", "3"),
        ("CAST(1 AS TEXT)", "\"1\""),
        ("CAST('x' AS REAL)", "0.000000"),
        ("'ABC' LIKE 'ab%'", "1"),
        ("'abc' GLOB 'a*'", "1"),
        ("'abc' GLOB 'A*'", "0"),
        ("'abc' NOT GLOB 'b*' AND 1", "1"),
        ("'abc' REGEXP 'b' AND 'abc' NOT REGEXP 'x'", "1"),
        ("coalesce(NULL, 5)", "5"),
        ("ifnull(NULL, 'x')", "\"x\""),
        ("substr('hello', 2, 3)", "\"ell\""),
        ("substr('hello', -3)", "\"llo\""),
        ("substr('hello', 3, -2)", "\"he\""),
        ("instr('hello', 'l')", "3"),
        ("length('été')", "3"),
        ("replace('aXbX', 'X', '-')", "\"a-b-\""),
        (
            "printf('%05.1f|%-4s|%x|%,d', 3.14159, 'ab', 255, 1234567)",
            "\"003.1|ab  |ff|1,234,567\"",
        ),
        (
            "typeof(1) || typeof('a') || typeof(1.5) || typeof(NULL)",
            "\"integertextrealnull\"",
        ),
        ("round(2.567, 2)", "2.570000"),
        ("ln(0)", "\"[NULL]\""),
        ("5 & 3", "1"),
        ("1 << 4", "16"),
        ("abs(-5)", "5"),
        ("hex('ab')", "\"6162\""),
    ];
    for (expression, expected) in cases {
        assert_eq!(s.value(expression), expected, "{expression}");
    }
    let nulls = "SELECT column1 FROM (VALUES (2), (NULL), (1)) ORDER BY 1";
    assert_eq!(s.rows(nulls), ["\"[NULL]\"", "1", "2"]);
    let nulls = "SELECT column1 FROM (VALUES (2), (NULL), (1)) ORDER BY 1 DESC";
    assert_eq!(s.rows(nulls), ["2", "1", "\"[NULL]\""]);
}

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
fn query_101_all_statements_run_and_empty_sql_is_refused() {
    let mut s = Session::new();
    assert_eq!(
        s.rows("CREATE VIEW v AS SELECT 7 AS x; SELECT x FROM v;"),
        ["7"]
    );
    assert!(s.error(" -- nothing\n ; ").contains("No valid SQL to run"));
    assert_eq!(s.rows("SELECT\u{a0}1 /* ; */ AS a -- ;\n"), ["1"]);
}

#[test]
fn query_103_a_second_definition_needs_or_replace() {
    let mut s = Session::new();
    s.csv("CREATE PERFETTO TABLE t AS SELECT 1 AS a")
        .expect("table");
    assert!(
        s.error("CREATE PERFETTO TABLE t AS SELECT 2 AS a")
            .contains("exists already")
    );
    s.csv("CREATE OR REPLACE PERFETTO TABLE t AS SELECT a + 1 AS a FROM t")
        .expect("replaced");
    assert_eq!(s.rows("SELECT a FROM t"), ["2"]);
    s.csv("CREATE PERFETTO FUNCTION f(x INT) RETURNS INT AS SELECT $x + 1")
        .expect("function");
    let again = "CREATE PERFETTO FUNCTION f(x INT) RETURNS INT AS SELECT $x + 2";
    assert!(s.error(again).contains("exists already"));
    s.csv(&again.replace("CREATE", "CREATE OR REPLACE"))
        .expect("replaced");
    assert_eq!(s.value("f(1)"), "3");
    let hash = "CREATE OR REPLACE PERFETTO FUNCTION hash(x INT) RETURNS INT AS SELECT 1";
    assert!(s.error(hash).contains("cannot be replaced"));
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
    assert!(
        error.contains("The view 'indirect' cannot be evaluated: There is no"),
        "{error}"
    );
    assert!(error.contains("'direct'"), "{error}");
    s.csv("CREATE VIEW direct AS SELECT 8 AS dur")
        .expect("again");
    assert_eq!(s.rows("SELECT dur FROM indirect"), ["10"]);

    let error = s.error("CREATE OR REPLACE PERFETTO VIEW direct AS SELECT dur FROM indirect");
    assert!(error.contains("it reads itself"), "{error}");
    assert_eq!(s.rows("SELECT dur FROM indirect"), ["10"]);
}

#[test]
fn query_104_functions_return_null_without_a_row_and_join_laterally() {
    let mut s = Session::new();
    s.csv(
        "CREATE PERFETTO TABLE t AS SELECT 1 AS id, 'a' AS name UNION ALL SELECT 2, 'b';
         CREATE PERFETTO FUNCTION name_of(id INT) RETURNS STRING AS
           SELECT name FROM t WHERE id = $id;
         CREATE PERFETTO FUNCTION above(low INT) RETURNS TABLE(id INT) AS
           SELECT id FROM t WHERE id > $low",
    )
    .expect("functions");
    assert_eq!(s.value("name_of(2)"), "\"b\"");
    assert_eq!(s.value("name_of(9)"), "\"[NULL]\"");
    assert_eq!(s.rows("SELECT id FROM above(1)"), ["2"]);
    let lateral = "SELECT t.id, o.id FROM t JOIN above(t.id) o ORDER BY 1";
    assert_eq!(s.rows(lateral), ["1,2"]);
    assert_eq!(
        s.rows("SELECT name_of(t.id) FROM t ORDER BY 1"),
        ["\"a\"", "\"b\""]
    );
    assert!(
        s.error("SELECT name_of(id) FROM t")
            .contains("needs its table")
    );
    let lateral = "SELECT o.id FROM t, above(id) o";
    assert_eq!(s.rows(lateral), ["2"]);
    let both = "SELECT a.id, b.id FROM t a JOIN t b JOIN above(a.id) c ON b.id = c.id";
    assert_eq!(s.rows(both), ["1,2"]);
    let ambiguous = "SELECT 1 FROM t a JOIN t b JOIN above(id) c";
    assert!(
        s.error(ambiguous)
            .contains("The column 'id' in an argument of above needs its table")
    );
    assert!(s.error("SELECT above(1)").contains("after FROM"));
    assert!(
        s.error("SELECT name_of(1, 2)")
            .contains("takes 1 arguments")
    );
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
        s.engine.add_module(name, sql, false).expect("module");
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
fn query_107_hash_is_fnv1a() {
    let mut s = Session::new();
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in b"a".iter().chain(&2i64.to_le_bytes()) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    assert_eq!(s.value("hash('a', 2)"), hash.cast_signed().to_string());
    assert!(s.error("SELECT hash(NULL)").contains("NULL"));
    assert!(s.error("SELECT hash(1.5)").contains("real"));
}

#[test]
fn query_108_texts_are_matched_and_split() {
    let mut s = Session::new();
    let cases = [
        ("regexp('b+', 'abbc')", "1"),
        ("regexp('B', 'abc', 'i')", "1"),
        ("regexp('B', 'abc')", "0"),
        ("regexp(NULL, 'abc')", "\"[NULL]\""),
        ("regexp_extract('x=12', 'x=(\\d+)')", "\"12\""),
        ("regexp_extract('x', 'y')", "\"[NULL]\""),
        ("regexp_replace_simple('a1b2', '[0-9]', '$0')", "\"a$0b$0\""),
        ("str_split('a,b', ',', 1)", "\"b\""),
        ("str_split('a,b', ',', 5)", "\"[NULL]\""),
        ("unhex('ff')", "255"),
        ("reverse('abc')", "\"cba\""),
        ("base64_encode('ab')", "\"YWI=\""),
        ("to_timecode(1000000001)", "\"00:00:01 000 000 001\""),
    ];
    for (expression, expected) in cases {
        assert_eq!(s.value(expression), expected, "{expression}");
    }
    assert!(
        s.error("SELECT regexp('(', 'a')")
            .contains("cannot be read")
    );
    assert!(
        s.error("SELECT regexp_extract('a', '(a)(b)')")
            .contains("more than one group")
    );
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
fn errors_have_the_location_and_the_nearest_name() {
    let mut s = Session::new();
    s.csv("CREATE PERFETTO TABLE slices_of_mine AS SELECT 1 AS dur, 'x' AS name")
        .expect("table");
    let error = s.error("SELECT 1,\n  nmae FROM slices_of_mine");
    assert!(
        error.contains("'nmae'") && error.contains("'name'"),
        "{error}"
    );
    assert!(error.contains("line 2, column 3"), "{error}");
    let error = s.error("SELECT * FROM slices_of_mind");
    assert!(
        error.contains("'slices_of_mine'") && error.contains("column 15"),
        "{error}"
    );
    let error = s.error("SELECT substrr(name, 1) FROM slices_of_mine");
    assert!(
        error.contains("'substrr'") && error.contains("'substr'"),
        "{error}"
    );
    let error = s.error("SELECT FROM WHERE");
    assert!(
        error.contains("Syntax error") && error.contains('^'),
        "{error}"
    );
}

#[test]
fn with_is_recursive_without_the_keyword() {
    let mut s = Session::new();
    let sql = "WITH n AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM n WHERE x < 4) SELECT x FROM n";
    assert_eq!(s.rows(sql), ["1", "2", "3", "4"]);
}

#[test]
fn lists_and_case_results_may_mix_texts_and_numbers() {
    let mut s = Session::new();
    s.rows("CREATE PERFETTO TABLE n AS VALUES (1, 'a'), (2, 'b'), (9007199254740993, 'c')");
    let count = |s: &mut Session, condition: &str| {
        s.value(&format!("(SELECT count() FROM n WHERE {condition})"))
    };
    assert_eq!(count(&mut s, "column1 IN (1, 'x', 2.0)"), "2");
    assert_eq!(count(&mut s, "column1 IN ('x')"), "0");
    assert_eq!(count(&mut s, "column2 IN (1, 'a', NULL)"), "1");
    assert_eq!(count(&mut s, "column1 NOT IN (1, 'x')"), "2");
    // A real cannot represent the integer next to this one.
    assert_eq!(count(&mut s, "column1 = 9007199254740992.0"), "0");
    assert_eq!(s.value("coalesce(NULL, 'a', 1)"), "\"a\"");
    assert_eq!(s.value("coalesce(NULL, 1, 'a')"), "\"1\"");
    assert_eq!(s.value("CASE WHEN 1 THEN 5 ELSE 'a' END"), "\"5\"");
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
fn older_statements_still_define_functions() {
    let mut s = Session::new();
    s.rows("SELECT create_function('plus(a INT, b INT)', 'INT', 'SELECT $a + $b')");
    assert_eq!(s.value("plus(1, 2)"), "3");
    s.rows("SELECT create_function('named(a INT)', 'STRING', 'SELECT \"No_\" || $a AS \"n\"')");
    assert_eq!(s.value("named(5)"), "\"No_5\"");
    s.rows("SELECT create_view_function('twice(a INT)', 'x INT', 'SELECT $a * 2 AS x')");
    assert_eq!(s.rows("SELECT x FROM twice(4)"), ["8"]);
    s.rows("SELECT import('time.conversion')");
    assert_eq!(s.value("time_to_us(2000)"), "2");
    s.rows("CREATE PERFETTO FUNCTION my_hash(v ANY...) RETURNS LONG DELEGATES TO hash");
    assert_eq!(s.value("my_hash('a', 2) = hash('a', 2)"), "1");
    assert!(
        s.error("CREATE PERFETTO FUNCTION f(v ANY...) RETURNS LONG DELEGATES TO nothing")
            .contains("no function 'nothing'")
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
fn json_is_read_and_written() {
    let mut s = Session::new();
    let document = "'{\"a\": [1, 2.5, \"x\", null], \"b\": {\"c\": true}}'";
    for (expression, value) in [
        (format!("{document} ->> '$.a[1]'"), "\"2.5\""),
        (format!("{document} -> 'a'"), "\"[1,2.5,\"x\",null]\""),
        (format!("json_extract({document}, '$.b.c')"), "\"1\""),
        (format!("json_extract({document}, '$.a[#-2]')"), "\"x\""),
        (format!("json_extract({document}, '$.a[3]')"), "\"[NULL]\""),
        (format!("json_extract({document}, '$.z')"), "\"[NULL]\""),
        (format!("json_type({document}, '$.a')"), "\"array\""),
        (format!("json_array_length({document}, '$.a')"), "4"),
        ("json_valid('{')".to_owned(), "0"),
        (
            "json_object('k', 1, 'l', json_quote('\"'))".to_owned(),
            r#""{"k":1,"l":"\"\\\"\""}""#,
        ),
        (
            "json_array(1, NULL, 'a', 0.5)".to_owned(),
            "\"[1,null,\"a\",0.5]\"",
        ),
    ] {
        assert_eq!(s.value(&expression), value, "{expression}");
    }
    assert_eq!(
        s.rows(
            "SELECT json_group_array(column1), json_group_object(column2, column1)
                FROM (VALUES (1, 'a'), (2, 'b'))"
        ),
        ["\"[1,2]\",\"{\"a\":1,\"b\":2}\""]
    );
    assert!(
        s.error("SELECT json_extract('{', '$')")
            .contains("malformed JSON")
    );
    assert!(
        s.error("SELECT json_extract('{}', '$x')")
            .contains("JSON path")
    );
}
