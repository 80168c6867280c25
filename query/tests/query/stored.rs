//! Tables of users.

use crate::common::Session;

#[test]
fn sqlites_create_table_and_insert_work() {
    let mut s = Session::new();
    s.rows(
        "CREATE TABLE t(ts BIGINT, name STRING, v DOUBLE, PRIMARY KEY (ts)) WITHOUT ROWID;
         INSERT INTO t(ts, name) VALUES (1, \"quoted\"), (0x1f, 'b')",
    );
    assert_eq!(
        s.rows("SELECT * FROM t ORDER BY ts"),
        ["1,\"quoted\",\"[NULL]\"", "31,\"b\",\"[NULL]\""]
    );
}

#[test]
fn integer_primary_keys_number_the_rows() {
    let mut s = Session::new();
    s.rows(
        "CREATE TABLE t(name STRING, id INTEGER PRIMARY KEY, v REAL);
         INSERT INTO t(name) VALUES ('a'), ('b');
         INSERT INTO t(id, name) VALUES (7, 'c');
         INSERT INTO t(name, v) SELECT 'd', 0.5",
    );
    assert_eq!(
        s.rows("SELECT id, name, v FROM t ORDER BY id"),
        [
            "1,\"a\",\"[NULL]\"",
            "2,\"b\",\"[NULL]\"",
            "7,\"c\",\"[NULL]\"",
            "8,\"d\",0.500000"
        ]
    );
}
