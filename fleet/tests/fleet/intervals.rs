//! Joins of intervals, compared with their definition as nested loops.

use crate::common::Session;
use ferretto_fleet::intervals::sweep::{Interval, Piece, as_of, meet, outer, with_gaps};
use proptest::prelude::*;

/// Generates sorted intervals and points that do not overlap.
fn intervals() -> impl Strategy<Value = Vec<Interval>> {
    proptest::collection::vec((0i64..4, 0i64..5), 0..40).prop_map(|steps| {
        let mut at = 0;
        let mut all: Vec<Interval> = Vec::new();
        for (gap, length) in steps {
            let start = at + gap;
            // Intervals with the same start overlap.
            if all.last().is_some_and(|last| last.start == start) {
                continue;
            }
            all.push(Interval::new(start, length));
            at = start + length;
        }
        all
    })
}

fn loops(left: &[Interval], right: &[Interval]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (l, a) in left.iter().enumerate() {
        for (r, b) in right.iter().enumerate() {
            let (start, end) = (a.start.max(b.start), a.end.min(b.end));
            let inside = |t: i64, i: &Interval| i.start <= t && t < i.end;
            let meets = start < end
                || a.start == b.start
                || (a.start == a.end && inside(a.start, b))
                || (b.start == b.end && inside(b.start, a));
            if meets {
                let at = Interval {
                    start,
                    end: end.max(start),
                };
                pieces.push(Piece {
                    at,
                    left: Some(l),
                    right: Some(r),
                });
            }
        }
    }
    pieces.sort_by_key(|p| (p.at.start, p.at.end, p.left, p.right));
    pieces
}

/// Returns the times of one side that no piece covers.
fn uncovered(side: &[Interval], pieces: &[Piece], left: bool) -> Vec<(usize, i64)> {
    let index = |p: &Piece| if left { p.left } else { p.right };
    let both = |p: &&Piece| p.left.is_some() && p.right.is_some();
    let mut times = Vec::new();
    for (i, interval) in side.iter().enumerate() {
        for t in interval.start..interval.end {
            let covered = pieces
                .iter()
                .filter(both)
                .any(|p| index(p) == Some(i) && p.at.start <= t && t < p.at.end);
            if !covered {
                times.push((i, t));
            }
        }
    }
    times
}

fn alone(pieces: &[Piece], left: bool) -> Vec<(usize, i64)> {
    let mut times: Vec<_> = pieces
        .iter()
        .filter_map(|p| match (p.left, p.right) {
            (Some(i), None) if left => Some((i, p.at)),
            (None, Some(i)) if !left => Some((i, p.at)),
            _ => None,
        })
        .flat_map(|(i, at)| (at.start..at.end).map(move |t| (i, t)))
        .collect();
    times.sort_unstable();
    times
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sweeps_return_the_pieces_of_nested_loops(a in intervals(), b in intervals()) {
        let mut met = meet(&a, &b);
        let left = with_gaps(&a, &met);
        let both = outer(&a, &b);
        met.sort_by_key(|p| (p.at.start, p.at.end, p.left, p.right));
        prop_assert_eq!(&met, &loops(&a, &b));
        prop_assert_eq!(alone(&left, true), uncovered(&a, &met, true));
        prop_assert_eq!(alone(&both, true), uncovered(&a, &met, true));
        prop_assert_eq!(alone(&both, false), uncovered(&b, &met, false));
        prop_assert!(both.is_sorted_by_key(|p| p.at.start));
        let times: Vec<i64> = a.iter().map(|i| i.start).collect();
        let other: Vec<i64> = b.iter().map(|i| i.start).collect();
        for (time, found) in times.iter().zip(as_of(&times, &other)) {
            prop_assert_eq!(found, other.iter().rposition(|t| t <= time));
        }
    }
}

/// Creates the tables `f` and `s`.
fn tables(s: &mut Session, f: &str, second: &str) {
    s.csv(&format!(
        "CREATE PERFETTO TABLE f(ts INT, dur INT, cpu INT) AS SELECT * FROM (VALUES {f});
         CREATE PERFETTO TABLE s AS SELECT {second}"
    ))
    .expect("tables");
}

const F: &str = "(100,10,5),(110,50,5),(120,100,2),(160,10,5)";

#[test]
fn query_109_a_span_join_has_the_pieces_of_each_cpu() {
    let mut s = Session::new();
    tables(
        &mut s,
        F,
        "column1 AS ts, column2 AS dur, column3 AS cpu \
         FROM (VALUES (100,5,5),(105,100,5),(110,50,2),(160,100,2))",
    );
    s.csv("CREATE VIRTUAL TABLE j USING SPAN_JOIN(f PARTITIONED cpu, s PARTITIONED cpu)")
        .expect("join");
    assert_eq!(
        s.rows("SELECT ts, dur, cpu FROM j ORDER BY cpu, ts"),
        [
            "120,40,2", "160,60,2", "100,5,5", "105,5,5", "110,50,5", "160,10,5"
        ]
    );
    assert_eq!(s.rows("SELECT count(*), sum(dur) FROM j"), ["6,170"]);
    assert_eq!(
        s.rows("SELECT cpu, sum(dur) FROM j WHERE cpu = 2 GROUP BY cpu"),
        ["2,100"]
    );
}

#[test]
fn query_110_a_side_without_partitions_joins_all_of_the_other() {
    let mut s = Session::new();
    tables(
        &mut s,
        &format!("{F},(300,100,2)"),
        "column1 AS ts, column2 AS dur, column3 AS x \
         FROM (VALUES (100,5,'a'),(105,5,'b'),(110,60,'c'),(320,10,'d'))",
    );
    s.csv("CREATE VIRTUAL TABLE j USING SPAN_JOIN(f PARTITIONED cpu, s)")
        .expect("join");
    assert_eq!(
        s.rows("SELECT * FROM j ORDER BY cpu, ts"),
        [
            "120,50,2,\"c\"",
            "320,10,2,\"d\"",
            "100,5,5,\"a\"",
            "105,5,5,\"b\"",
            "110,50,5,\"c\"",
            "160,10,5,\"c\""
        ]
    );
}

#[test]
fn query_111_left_and_outer_joins_fill_gaps() {
    let mut s = Session::new();
    s.csv(
        "CREATE PERFETTO TABLE a AS SELECT column1 AS ts, column2 AS dur, column3 AS cpu, \
           column4 AS x FROM (VALUES (0,10,1,'a'),(20,10,1,'b'),(5,5,NULL,'n'));
         CREATE PERFETTO TABLE b AS SELECT column1 AS ts, column2 AS dur, column3 AS cpu, \
           column4 AS y FROM (VALUES (5,20,1,'c'),(0,5,2,'d'));
         CREATE VIRTUAL TABLE l USING SPAN_LEFT_JOIN(a PARTITIONED cpu, b PARTITIONED cpu);
         CREATE VIRTUAL TABLE o USING SPAN_OUTER_JOIN(a PARTITIONED cpu, b PARTITIONED cpu)",
    )
    .expect("joins");
    let left = [
        "0,5,1,\"a\",\"[NULL]\"",
        "5,5,1,\"a\",\"c\"",
        "20,5,1,\"b\",\"c\"",
        "25,5,1,\"b\",\"[NULL]\"",
    ];
    assert_eq!(s.rows("SELECT * FROM l ORDER BY cpu, ts"), left);
    let outer = [
        "0,5,1,\"a\",\"[NULL]\"",
        "5,5,1,\"a\",\"c\"",
        "10,10,1,\"[NULL]\",\"c\"",
        "20,5,1,\"b\",\"c\"",
        "25,5,1,\"b\",\"[NULL]\"",
        "0,5,2,\"[NULL]\",\"d\"",
    ];
    assert_eq!(s.rows("SELECT * FROM o ORDER BY cpu, ts"), outer);
    let shared = "CREATE VIRTUAL TABLE z USING SPAN_JOIN(a PARTITIONED cpu, a PARTITIONED cpu)";
    assert!(s.error(shared).contains("'x'"));
    let unknown = "CREATE VIRTUAL TABLE z USING window";
    assert!(s.error(unknown).contains("'window' is not supported"));
}

#[test]
fn query_112_intersections_and_intervals_of_counters() {
    let mut s = Session::new();
    s.csv(
        "CREATE PERFETTO TABLE a AS SELECT column1 AS id, column2 AS ts, column3 AS dur, \
           column4 AS cpu FROM (VALUES (1,0,10,1),(2,10,10,1),(3,0,20,2));
         CREATE PERFETTO TABLE b AS SELECT column1 AS id, column2 AS ts, column3 AS dur, \
           column4 AS cpu FROM (VALUES (7,5,10,1),(8,30,5,2));
         INCLUDE PERFETTO MODULE intervals.intersect",
    )
    .expect("tables");
    assert_eq!(
        s.rows(
            "SELECT ts, dur, id_0, id_1, cpu FROM _interval_intersect!((a, b), (cpu)) ORDER BY 1"
        ),
        ["5,5,1,7,1", "10,5,2,7,1"]
    );
    assert_eq!(
        s.rows("SELECT ts, dur, id_0, id_1 FROM _interval_intersect!((a, (SELECT * FROM b WHERE id = 8)), ())"),
        Vec::<String>::new()
    );
    s.csv(
        "INCLUDE PERFETTO MODULE counters.intervals;
         CREATE PERFETTO TABLE c AS SELECT column1 AS id, column2 AS ts, 1 AS track_id, \
           column3 AS value FROM (VALUES (0,-40,5.0),(1,-35,5.0),(2,-30,5.0),(3,-20,5.0),(4,-10,6.0))",
    )
    .expect("counter");
    assert_eq!(
        s.rows(
            "SELECT id, ts, dur, value, next_value, delta_value \
                FROM counter_leading_intervals!(c) ORDER BY ts"
        ),
        [
            "0,-40,5,5.000000,5.000000,\"[NULL]\"",
            "1,-35,15,5.000000,5.000000,0.000000",
            "3,-20,10,5.000000,6.000000,0.000000",
            "4,-10,10,6.000000,\"[NULL]\",1.000000"
        ]
    );
}

#[test]
fn query_113_overlaps_are_counted() {
    let mut s = Session::new();
    s.csv(
        "INCLUDE PERFETTO MODULE intervals.overlap;
         CREATE PERFETTO TABLE t AS SELECT column1 AS ts, column2 AS dur, column3 AS g \
           FROM (VALUES (0,10,'a'),(5,10,'a'))",
    )
    .expect("table");
    let counts = ["0,1", "5,2", "10,1", "15,0"];
    assert_eq!(
        s.rows("SELECT ts, value FROM intervals_overlap_count!(t, ts, dur)"),
        counts
    );
    assert_eq!(
        s.rows("SELECT ts, value FROM intervals_overlap_count_by_group!(t, ts, dur, g)"),
        counts
    );
    assert_eq!(
        s.rows("SELECT ts, dur FROM interval_merge_overlapping!(t, 0)"),
        ["0,15"]
    );
}

#[test]
fn as_of_joins_return_the_last_row_before() {
    let mut s = Session::new();
    s.csv(
        "CREATE PERFETTO TABLE a AS SELECT column1 AS ts, column2 AS cpu, column3 AS x \
           FROM (VALUES (5,1,'p'),(1,1,'q'),(9,2,'r'));
         CREATE PERFETTO TABLE b AS SELECT column1 AS ts, column2 AS cpu, column3 AS v \
           FROM (VALUES (2,1,20),(5,1,50),(7,1,70))",
    )
    .expect("tables");
    assert_eq!(
        s.rows("SELECT x, right_ts, v FROM asof_join!(a, b, (cpu)) ORDER BY x"),
        [
            "\"p\",5,50",
            "\"q\",\"[NULL]\",\"[NULL]\"",
            "\"r\",\"[NULL]\",\"[NULL]\""
        ]
    );
}

#[test]
fn intersections_may_have_texts_as_keys_and_overlaps() {
    let mut s = Session::new();
    s.rows(
        "INCLUDE PERFETTO MODULE intervals.intersect;
         CREATE PERFETTO TABLE a AS
         SELECT column1 AS id, column2 AS ts, column3 AS dur, column4 AS name
         FROM (VALUES (1, 0, 10, 'x'), (2, 5, 10, 'x'), (3, 0, 10, 'y'));
         CREATE PERFETTO TABLE b AS
         SELECT column1 AS id, column2 AS ts, column3 AS dur, column4 AS name
         FROM (VALUES (10, 8, 4, 'x'), (11, 9, 1, 'y'))",
    );
    assert_eq!(
        s.rows(
            "SELECT ts, dur, id_0, id_1, name FROM _interval_intersect!((a, b), (name))
             ORDER BY name, id_0"
        ),
        ["8,2,1,10,\"x\"", "8,4,2,10,\"x\"", "9,1,3,11,\"y\""]
    );
    assert_eq!(
        s.rows("SELECT * FROM _interval_intersect_single!(8, 4, a) ORDER BY id"),
        ["1,8,2", "2,8,4", "3,8,2"]
    );
    assert_eq!(
        s.rows(
            "SELECT ts, dur, name FROM _interval_intersect_with_col_names!(
               a, id, ts, dur, b, id, ts, dur, (name)) ORDER BY ts, dur, name"
        ),
        ["8,2,\"x\"", "8,4,\"x\"", "9,1,\"y\""]
    );
    let mixed =
        "SELECT * FROM _interval_intersect!((a, (SELECT id, ts, dur, id AS name FROM b)), (name))";
    assert!(s.error(mixed).contains("texts in one input"));
}

#[test]
fn pieces_of_one_table_have_members() {
    let mut s = Session::new();
    assert_eq!(
        s.rows(
            "INCLUDE PERFETTO MODULE intervals.intersect;
             WITH data(id, ts, dur) AS (VALUES (0, 10, 30), (1, 20, 5), (2, 50, 5))
             SELECT * FROM interval_self_intersect!(data) ORDER BY ts, id"
        ),
        [
            "10,10,1,0,0",
            "20,5,2,0,0",
            "20,5,2,1,0",
            "25,15,3,0,0",
            "25,15,3,1,1",
            "40,10,4,0,1",
            "50,5,5,2,0",
            "55,0,6,2,1"
        ]
    );
}

#[test]
fn intervals_are_merged_created_and_completed() {
    let mut s = Session::new();
    s.rows(
        "INCLUDE PERFETTO MODULE intervals.overlap;
         INCLUDE PERFETTO MODULE intervals.create_intervals;
         INCLUDE PERFETTO MODULE intervals.fill_gaps;
         CREATE PERFETTO TABLE spans AS
         SELECT column1 AS ts, column2 AS dur, column3 AS part
         FROM (VALUES (0, 10, 'a'), (10, 5, 'a'), (20, 5, 'a'), (3, 1, NULL))",
    );
    assert_eq!(
        s.rows(
            "SELECT * FROM interval_merge_overlapping_partitioned!(spans, (part))
             ORDER BY part, ts"
        ),
        ["3,1,\"[NULL]\"", "0,15,\"a\"", "20,5,\"a\""]
    );
    assert_eq!(
        s.rows(
            "WITH s(ts) AS (VALUES (1), (5), (30)), e(ts) AS (VALUES (5), (9))
             SELECT * FROM _interval_create!(s, e)"
        ),
        ["1,4", "5,4"]
    );
    assert_eq!(
        s.rows("SELECT has_overlaps FROM _intervals_overlap_in_table!(spans)"),
        ["1"]
    );
    let mut s = crate::common::over(crate::common::TRACE);
    assert_eq!(
        s.rows(
            "INCLUDE PERFETTO MODULE intervals.fill_gaps;
             SELECT ts - trace_start(), dur, part, v FROM _intervals_fill_gaps!(
               (part), (v), (SELECT trace_start() + 10 AS ts, 5 AS dur, 'p' AS part, 1 AS v)
             ) ORDER BY ts"
        ),
        [
            "0,10,\"p\",\"[NULL]\"",
            "10,5,\"p\",1",
            "15,315,\"p\",\"[NULL]\""
        ]
    );
}

#[test]
fn pieces_of_an_outer_join_keep_the_partition() {
    let mut s = Session::new();
    s.rows(
        "CREATE PERFETTO TABLE a AS SELECT 0 AS ts, 10 AS dur, 3 AS cpu, 'a' AS x;
         CREATE PERFETTO TABLE b AS SELECT 5 AS ts, 10 AS dur, 'b' AS y;
         CREATE VIRTUAL TABLE both USING SPAN_OUTER_JOIN(a PARTITIONED cpu, b)",
    );
    assert_eq!(
        s.rows("SELECT ts, dur, cpu, x, y FROM both ORDER BY ts"),
        [
            "0,5,3,\"a\",\"[NULL]\"",
            "5,5,3,\"a\",\"b\"",
            "10,5,3,\"[NULL]\",\"b\""
        ]
    );
}
