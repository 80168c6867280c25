//! Functions that call themselves.

use crate::common::Session;

#[test]
fn functions_may_call_themselves_in_an_expression() {
    let mut s = Session::new();
    s.csv(
        "CREATE PERFETTO FUNCTION fact(n INT) RETURNS INT AS
         SELECT IIF($n <= 1, 1, $n * fact($n - 1));
         SELECT create_function('mirror(n INT)', 'STRING',
           'SELECT IIF($n = 0, \"\", mirror($n - 1) || char(96 + $n) || mirror($n - 1))');
         CREATE PERFETTO FUNCTION divisor(a LONG, b LONG) RETURNS LONG AS
         SELECT CASE WHEN $b = 0 THEN $a ELSE divisor($b, $a % $b) END;",
    )
    .expect("functions");
    assert_eq!(s.value("fact(10)"), "3628800");
    assert_eq!(s.value("mirror(3)"), "\"abacaba\"");
    assert_eq!(s.value("divisor(84, 36)"), "12");
    assert_eq!(
        s.rows("SELECT v.column1, fact(v.column1) FROM (VALUES (4), (0), (5), (4)) v"),
        ["4,24", "0,1", "5,120", "4,24"]
    );
    s.csv(
        "CREATE OR REPLACE PERFETTO FUNCTION fact(n INT) RETURNS DOUBLE AS
         SELECT IIF($n <= 1, 1, 0.5 * fact($n - 1))",
    )
    .expect("a function");
    assert_eq!(s.value("fact(3)"), "0.250000");
}

#[test]
fn functions_with_kept_results_call_themselves_to_any_depth() {
    let mut s = Session::new();
    s.csv(
        "CREATE PERFETTO FUNCTION up(n LONG) RETURNS LONG AS
         SELECT IIF($n = 0, 0, 1 + up($n - 1));
         SELECT EXPERIMENTAL_MEMOIZE('up');
         CREATE PERFETTO FUNCTION fib(n LONG) RETURNS LONG AS
         SELECT IIF($n < 2, $n, fib($n - 1) + fib($n - 2));
         SELECT EXPERIMENTAL_MEMOIZE('fib');
         CREATE PERFETTO FUNCTION around(n LONG) RETURNS LONG AS
         SELECT IIF($n = 5, around(6), around(5));
         SELECT EXPERIMENTAL_MEMOIZE('around');
         CREATE PERFETTO FUNCTION odd(n LONG) RETURNS LONG AS SELECT $n;
         CREATE PERFETTO FUNCTION even(n LONG) RETURNS LONG AS
         SELECT IIF($n = 0, 1, odd($n - 1));
         CREATE OR REPLACE PERFETTO FUNCTION odd(n LONG) RETURNS LONG AS
         SELECT IIF($n = 0, 0, even($n - 1));
         SELECT EXPERIMENTAL_MEMOIZE('odd'); SELECT EXPERIMENTAL_MEMOIZE('even')",
    )
    .expect("functions");
    assert_eq!(s.value("up(20000)"), "20000");
    assert_eq!(s.value("fib(90)"), "2880067194370816120");
    assert_eq!(s.value("even(150) + odd(151)"), "2");
    let error = s.error("SELECT around(5)");
    assert!(error.contains("needs itself"), "{error}");
    // An error leaves the other results usable.
    assert_eq!(s.value("up(20001)"), "20001");
}
