//! Tables of the trace, compared with tables of SQLite that have the same rows.

use crate::common::{Random, Session};

#[test]
fn conditions_find_the_rows() {
    let mut session = Session::new();
    assert_eq!(
        session.rows("SELECT name FROM slice WHERE id = 2"),
        ["\"innermost\""]
    );
    assert_eq!(
        session.rows("SELECT id FROM slice WHERE name = 'inner'"),
        ["1"]
    );
    assert_eq!(
        session.rows("SELECT count(*) FROM slice WHERE id = 2.5 OR id = '2'"),
        ["0"]
    );
    assert_eq!(
        session.rows("SELECT id FROM slice WHERE ts > 1010.5 AND ts < 'a'"),
        ["2", "3"]
    );
    assert_eq!(
        session.rows("SELECT id FROM slice WHERE id IN (3, 1) ORDER BY id DESC"),
        ["3", "1"]
    );
    assert_eq!(
        session.value("5 NOT IN (SELECT parent_id FROM slice)"),
        "\"[NULL]\""
    );
}

#[test]
fn arguments_keep_their_types() {
    let mut session = Session::new();
    let sql = "SELECT extract_arg(arg_set_id, 'debug.number') + 1, \
        typeof(extract_arg(arg_set_id, 'debug.text')), extract_arg(arg_set_id, 'none') \
        FROM slice WHERE name = 'outer'";
    assert_eq!(session.rows(sql), ["8,\"text\",\"[NULL]\""]);
}

#[test]
fn relations_between_rows_are_found() {
    let mut session = Session::new();
    assert_eq!(
        session.rows("SELECT name FROM ancestor_slice(2)"),
        ["\"outer\"", "\"inner\""]
    );
    assert_eq!(
        session.rows("SELECT count(*) FROM descendant_slice(0)"),
        ["2"]
    );
    let sql = "SELECT s.id, (SELECT count(*) FROM ancestor_slice(s.id)) FROM slice s";
    assert_eq!(session.rows(sql), ["0,0", "1,1", "2,2", "3,0"]);
    assert_eq!(
        session.rows("SELECT slice_in FROM following_flow(0)"),
        ["3"]
    );
}

fn condition(random: &mut Random) -> String {
    const COLUMNS: [&str; 8] = [
        "id",
        "ts",
        "dur",
        "track_id",
        "depth",
        "parent_id",
        "name",
        "arg_set_id",
    ];
    const VALUES: [&str; 14] = [
        "0",
        "1",
        "2",
        "1010",
        "1010.5",
        "1020.0",
        "-1",
        "1e300",
        "NULL",
        "'inner'",
        "'1'",
        "x'00'",
        "(SELECT max(depth) FROM copy)",
        "9223372036854775807",
    ];
    let column = random.of(&COLUMNS);
    match random.below(6) {
        0 => format!("{column} IS {}", random.of(&["NULL", "NOT NULL", "1"])),
        1 => format!(
            "{column} IN ({}, {})",
            random.of(&VALUES),
            random.of(&VALUES)
        ),
        2 => format!(
            "{column} BETWEEN {} AND {}",
            random.of(&VALUES),
            random.of(&VALUES)
        ),
        _ => {
            let op = random.of(&["=", "<", "<=", ">", ">=", "<>"]);
            format!("{column} {op} {}", random.of(&VALUES))
        }
    }
}

#[test]
fn random_queries_give_the_rows_of_a_table_of_sqlite() {
    let mut session = Session::new();
    session.rows("CREATE PERFETTO TABLE copy AS SELECT * FROM __intrinsic_slice");
    let mut random = Random(7);
    for _ in 0..2000 {
        let mut sql = format!(
            "SELECT a.id, a.name, a.ts FROM TABLE a WHERE a.{}",
            condition(&mut random)
        );
        match random.below(4) {
            0 => sql += &format!(" AND a.{}", condition(&mut random)),
            1 => sql += &format!(" OR a.{}", condition(&mut random)),
            2 => {
                let column = random.of(&["id", "parent_id", "depth", "track_id", "name"]);
                let other = random.of(&["id", "parent_id", "depth", "name"]);
                sql = format!(
                    "SELECT a.id, b.id, a.ts FROM TABLE a LEFT JOIN TABLE b ON a.{column} = b.{other}"
                );
            }
            _ => {}
        }
        let order = random.of(&[
            "a.id",
            "a.ts, a.id",
            "a.ts DESC, a.id",
            "a.id DESC",
            "a.depth, a.id",
            "a.name DESC, a.id",
        ]);
        sql += &format!(" ORDER BY {order}, 2");
        if random.below(3) == 0 {
            sql += &format!(" LIMIT {} OFFSET {}", random.below(4), random.below(3));
        }
        let (ours, theirs) = (
            sql.replace("TABLE", "__intrinsic_slice"),
            sql.replace("TABLE", "copy"),
        );
        assert_eq!(session.rows(&ours), session.rows(&theirs), "{sql}");
    }
}
