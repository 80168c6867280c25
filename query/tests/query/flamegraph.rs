//! Flamegraphs of callstacks.

use crate::common::Session;

/// `run` calls `read` twice and `write`; `read` calls `copy`.
const STACKS: &str = "CREATE VIRTUAL TABLE stacks USING __intrinsic_flamegraph((
  SELECT column1 AS id, column2 AS parent_id, column3 AS name, column4 AS value, column5 AS lib,
    column6 AS bytes
  FROM (VALUES
    (14, 13, 'copy', 8, 'libc', 3), (10, NULL, 'run', 1, 'app', 1), (11, 10, 'read', 2, 'libc', NULL),
    (12, 10, 'read', 4, 'app', 5), (13, 12, 'skip', 16, 'app', 7), (15, 10, 'write', 32, 'app', 9))
));";

/// Returns the rows of a flamegraph with a configuration.
fn rows(columns: &str, config: &str) -> Vec<String> {
    let mut s = Session::new();
    s.csv(STACKS).expect("a table");
    s.rows(&format!(
        "SELECT {columns} FROM stacks(__intrinsic_flamegraph_config('value', 'value', {config}))"
    ))
}

#[test]
fn frames_with_the_same_path_are_merged_and_sorted_by_size() {
    assert_eq!(
        rows(
            "_tree_id, _tree_parent_id, depth, name, self_value, cumulative_value, \
             parent_cumulative_value, x_start, x_end",
            "'view', 'TOP_DOWN'"
        ),
        [
            "0,\"[NULL]\",1,\"run\",1,63,\"[NULL]\",0,63",
            "1,0,2,\"write\",32,32,63,0,32",
            "2,0,2,\"read\",6,30,63,32,62",
            "3,2,3,\"skip\",16,24,30,32,56",
            "4,3,4,\"copy\",8,8,24,32,40",
        ]
    );
}

#[test]
fn bottom_up_shows_the_callers_of_frames_with_values() {
    assert_eq!(
        rows(
            "name, depth, self_value, cumulative_value, x_start",
            "'view', 'BOTTOM_UP', 'filter', 'SHOW_STACK', '^read$', ''"
        ),
        [
            "\"skip\",-1,16,16,0",
            "\"copy\",-1,8,8,16",
            "\"read\",-1,6,6,24",
            "\"read\",-2,0,16,0",
            "\"skip\",-2,0,8,16",
            "\"run\",-2,0,6,24",
            "\"run\",-3,0,16,0",
            "\"read\",-3,0,8,16",
            "\"run\",-4,0,8,16",
        ]
    );
}

#[test]
fn pivot_and_from_frame_start_at_matching_frames() {
    assert_eq!(
        rows(
            "name, depth, cumulative_value",
            "'view', 'PIVOT', 'view_pattern', 'READ', 'i'"
        ),
        [
            "\"read\",1,30",
            "\"read\",-1,30",
            "\"skip\",2,24",
            "\"run\",-2,30",
            "\"copy\",3,8",
        ]
    );
    assert_eq!(
        rows(
            "name, depth, cumulative_value",
            "'view', 'FROM_FRAME', 'view_pattern', '^skip$', ''"
        ),
        ["\"skip\",1,24", "\"copy\",2,8"]
    );
}

#[test]
fn hidden_frames_become_part_of_their_callers() {
    assert_eq!(
        rows(
            "name, self_value, bytes",
            "'view', 'TOP_DOWN', 'filter', 'HIDE_FRAME', '^skip$', '',
             'filter', 'HIDE_STACK', '^(skip|write)$', '', 'aggregate', 'SUM', 'bytes', 'bytes'"
        ),
        ["\"run\",1,1", "\"read\",22,12", "\"copy\",8,3"]
    );
}

#[test]
fn columns_distinguish_frames_or_are_summarized() {
    assert_eq!(
        rows(
            "name, lib, cumulative_value, bytes",
            "'view', 'TOP_DOWN', 'grouping', 'lib', 'filter', 'SHOW_STACK', 'libc', ''"
        ),
        [
            "\"run\",\"app\",10,\"[NULL]\"",
            "\"read\",\"app\",8,\"[NULL]\"",
            "\"read\",\"libc\",2,\"[NULL]\"",
            "\"skip\",\"app\",8,\"[NULL]\"",
            "\"copy\",\"libc\",8,\"[NULL]\"",
        ]
    );
    assert_eq!(
        rows(
            "name, lib, bytes",
            "'view', 'TOP_DOWN', 'filter', 'HIDE_STACK', 'skip|write', '',
             'aggregate', 'ONE_OR_SUMMARY', 'lib', 'lib',
             'aggregate', 'CONCAT_WITH_COMMA', 'bytes', 'bytes'"
        ),
        [
            "\"run\",\"app\",\"1\"",
            "\"read\",\"libc and 2 others\",\"5\""
        ]
    );
}

#[test]
fn several_columns_can_be_values() {
    let mut s = Session::new();
    s.csv(STACKS).expect("a table");
    assert_eq!(
        s.rows(
            "SELECT name, self_bytes, cumulative_bytes, cumulative_value
             FROM stacks(__intrinsic_flamegraph_config('value', 'bytes', 'view', 'TOP_DOWN'))
             WHERE depth < 3"
        ),
        ["\"run\",1,25,25", "\"read\",5,15,15", "\"write\",9,9,9"]
    );
    assert_eq!(
        s.rows(
            "SELECT _tree_parent_id, depth, name, cumulative_value
             FROM stacks(__intrinsic_flamegraph_config('value', 'value', 'view', 'TOP_DOWN'))
             WHERE __intrinsic_flamegraph_find(_tree_id, 'SUPER_ROOT')"
        ),
        ["\"[NULL]\",0,\"[NULL]\",63"]
    );
}

#[test]
fn wrong_rows_and_configurations_of_flamegraphs_have_messages() {
    let mut s = Session::new();
    s.csv(STACKS).expect("a table");
    for (config, message) in [
        ("'value', 'lib'", "must be numeric"),
        ("'value', 'nothing'", "column 'nothing' does not exist"),
        (
            "'view', 'TOP_DOWN'",
            "at least one value column is required",
        ),
        ("'value', 'value', 'view', 'PIVOT'", "take a view_pattern"),
        (
            "'value', 'value', 'view', 'SIDEWAYS'",
            "unknown view 'SIDEWAYS'",
        ),
        (
            "'value', 'value', 'filter', 'SHOW_STACK', '('",
            "'filter' takes 3 values",
        ),
        (
            "'value', 'value', 'filter', 'SHOW_STACK', '(', ''",
            "'(' cannot be read",
        ),
        ("'value', 'value', 'color', 'red'", "unknown name 'color'"),
    ] {
        let sql = format!("SELECT * FROM stacks(__intrinsic_flamegraph_config({config}))");
        let error = s.error(&sql);
        assert!(error.contains(message), "{config}: {error}");
    }
    assert!(
        s.error("SELECT * FROM stacks")
            .contains("takes an argument")
    );
    assert!(
        s.error("SELECT * FROM stacks(1)")
            .contains("must be __intrinsic_flamegraph_config")
    );
    for (rows, message) in [
        (
            "SELECT 1 AS id, 'a' AS name",
            "must be id, parent_id, name, value",
        ),
        (
            "SELECT 1 AS id, 2 AS parent_id, 'a' AS name, 1 AS value",
            "no id of a row",
        ),
        (
            "SELECT 1 AS id, 2 AS parent_id, 'a' AS name, 1 AS value \
             UNION ALL SELECT 2, 1, 'b', 1",
            "circular",
        ),
        (
            "SELECT 1 AS id, NULL AS parent_id, 'a' AS name, 1 AS value \
             UNION ALL SELECT 1, NULL, 'b', 1",
            "have the id 1",
        ),
        (
            "SELECT 1 AS id, NULL AS parent_id, 'a' AS name, 'b' AS value",
            "must have numbers",
        ),
        (
            "SELECT 1 AS id, NULL AS parent_id, 'a' AS name, 1 AS value, 2 AS depth",
            "name of a result column",
        ),
    ] {
        let sql = format!("CREATE VIRTUAL TABLE f USING __intrinsic_flamegraph(({rows}))");
        let error = s.error(&sql);
        assert!(error.contains(message), "{rows}: {error}");
    }
    s.csv(
        "CREATE VIRTUAL TABLE f USING __intrinsic_flamegraph((
           SELECT 1 AS id, NULL AS parent_id, 'a' AS name, -1 AS value))",
    )
    .expect("a table");
    let error = s.error("SELECT * FROM f(__intrinsic_flamegraph_config('value', 'value'))");
    assert!(
        error.contains("value columns must be non-negative"),
        "{error}"
    );
}
