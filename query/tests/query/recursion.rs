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
