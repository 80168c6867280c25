//! Operators on intervals, compared with simple programs.

use crate::common::{Random, Session};

/// An interval: start, duration and key. The id is its place.
type Interval = (i64, i64, Option<i64>);

fn intervals(random: &mut Random, count: u64) -> Vec<Interval> {
    let interval = |_| {
        let key = random.below(4) as i64;
        let (ts, dur) = (random.below(30) as i64, random.below(8) as i64);
        (ts, dur, (key > 0).then_some(key))
    };
    (0..count).map(interval).collect()
}

fn table(intervals: &[Interval]) -> String {
    let rows: Vec<String> = intervals
        .iter()
        .enumerate()
        .map(|(id, (ts, dur, key))| {
            let key = key.map_or("NULL".to_owned(), |key| key.to_string());
            format!("({id}, {ts}, {dur}, {key})")
        })
        .collect();
    format!(
        "(WITH v(id, ts, dur, k) AS (VALUES {}) SELECT * FROM v)",
        rows.join(", ")
    )
}

/// Returns the intersection of two intervals. One of length 0 intersects another one in it, not at
/// its end, or at the same time.
fn both(a: (i64, i64), b: (i64, i64)) -> Option<(i64, i64)> {
    let (ts, end) = (a.0.max(b.0), a.1.min(b.1));
    let contains = |outer: (i64, i64)| outer.0 <= ts && (ts < outer.1 || outer.0 == ts);
    (ts < end || (ts == end && contains(a) && contains(b))).then_some((ts, end))
}

#[test]
fn intersections_are_those_of_all_combinations() {
    let mut session = Session::new();
    session.rows("INCLUDE PERFETTO MODULE intervals.intersect");
    let mut random = Random(21);
    for round in 0..60 {
        let inputs: Vec<Vec<Interval>> = (0..1 + random.below(4))
            .map(|_| {
                let count = 1 + random.below(8);
                intervals(&mut random, count)
            })
            .collect();
        let has_key = round % 2 == 0;
        // All combinations of one row of each input.
        let mut found = vec![(i64::MIN, i64::MAX, None, String::new())];
        for input in &inputs {
            let mut next = Vec::new();
            for (ts, end, key, ids) in &found {
                for (id, (other, dur, of)) in input.iter().enumerate() {
                    let has_same_key = !has_key || key.is_none_or(|key| key == *of);
                    let whole = ids.is_empty().then_some((*other, other + dur));
                    let part = whole.or(both((*ts, *end), (*other, other + dur)));
                    if let Some((ts, end)) = part.filter(|_| has_same_key) {
                        next.push((ts, end, Some(*of), format!("{ids}{id},")));
                    }
                }
            }
            found = next;
        }
        let mut expected: Vec<String> = found
            .iter()
            .map(|(ts, end, key, ids)| {
                let key = key.flatten().filter(|_| has_key).unwrap_or(-1);
                format!("{ts},{},{ids}{key}", end - ts)
            })
            .collect();
        expected.sort();
        let tables: Vec<String> = inputs.iter().map(|input| table(input)).collect();
        let ids: String = (0..inputs.len()).map(|n| format!("id_{n}, ")).collect();
        let (keys, key) = if has_key {
            ("(k)", "ifnull(k, -1)")
        } else {
            ("()", "-1")
        };
        let sql = format!(
            "SELECT ts, dur, {ids}{key} FROM _interval_intersect!(({}), {keys})",
            tables.join(", ")
        );
        let mut rows = session.rows(&sql);
        rows.sort();
        assert_eq!(rows, expected, "{inputs:?}");
    }
}

#[test]
fn intersections_have_the_columns_of_fifteen_inputs() {
    let mut session = Session::new();
    let agg = |ts: i64, dur: i64| {
        format!("(SELECT __intrinsic_interval_tree_intervals_agg(7, {ts}, {dur}, 'k', 'x'))")
    };
    let sql = |inputs: &[String], keys: &str| {
        format!(
            "SELECT c0, c1, c2, c3, c4, c5 FROM __intrinsic_table_ptr(
               __intrinsic_interval_intersect({}, '{keys}'))
             WHERE __intrinsic_table_ptr_bind(c0, 'ts') AND __intrinsic_table_ptr_bind(c1, 'dur')
             AND __intrinsic_table_ptr_bind(c2, 'id_0') AND __intrinsic_table_ptr_bind(c3, 'id_1')
             AND __intrinsic_table_ptr_bind(c4, 'id_14') AND __intrinsic_table_ptr_bind(c5, 'k')",
            inputs.join(", ")
        )
    };
    let two = [agg(0, 10), agg(5, 10)];
    assert_eq!(
        session.rows(&sql(&two, "( k )")),
        ["5,5,7,7,\"[NULL]\",\"x\""]
    );
    let empty = [agg(0, 10), "NULL".to_owned()];
    assert!(session.rows(&sql(&empty, "(k)")).is_empty());
    for (inputs, keys) in [
        (vec![agg(0, 10)], "()"),
        (vec![agg(0, 10)], "(k, l)"),
        (vec![agg(0, -1)], "(k)"),
        (vec![agg(0, 1); 16], "(k)"),
        (vec!["5".to_owned()], "(k)"),
    ] {
        session.error(&sql(&inputs, keys));
    }
    session.error("SELECT __intrinsic_interval_intersect()");
    session.error("SELECT __intrinsic_interval_intersect('(k)')");
    session.error("SELECT __intrinsic_interval_intersect(NULL, NULL)");
}

#[test]
fn counters_are_intervals_without_repeated_values() {
    let mut session = Session::new();
    session.rows("INCLUDE PERFETTO MODULE counters.intervals");
    let end: i64 = session.value("trace_end()").parse().expect("a time");
    let mut random = Random(22);
    for _ in 0..60 {
        let count = 1 + random.below(24);
        let mut counts: Vec<(i64, i64, i64)> = (0..count)
            .map(|_| {
                let [ts, track, value] = [50, 2, 2].map(|limit| random.below(limit) as i64);
                (ts, track, value)
            })
            .collect();
        counts.sort();
        let rows: Vec<String> = counts
            .iter()
            .enumerate()
            .map(|(id, (ts, track, value))| format!("({id}, {ts}, {track}, {value})"))
            .collect();
        let mut expected = Vec::new();
        for track in 0..2 {
            let of: Vec<(usize, i64, i64)> = counts
                .iter()
                .enumerate()
                .filter(|(_, count)| count.1 == track)
                .map(|(id, count)| (id, count.0, count.2))
                .collect();
            // A row is left out if the two rows before it and the one after it have its value.
            let is_kept = |at: usize| {
                at < 2
                    || of[at - 1].2 != of[at].2
                    || of[at - 2].2 != of[at].2
                    || of.get(at + 1).is_some_and(|next| next.2 != of[at].2)
            };
            let kept: Vec<_> = (0..of.len())
                .filter(|at| is_kept(*at))
                .map(|at| of[at])
                .collect();
            for (at, (id, ts, value)) in kept.iter().enumerate() {
                let next = kept.get(at + 1);
                let null = "\"[NULL]\"".to_owned();
                let real = |value: i64| format!("{value}.000000");
                expected.push(format!(
                    "{id},{ts},{},{track},{},{},{}",
                    next.map_or(end, |next| next.1) - ts,
                    real(*value),
                    next.map_or(null.clone(), |next| real(next.2)),
                    at.checked_sub(1)
                        .map_or(null, |at| real(value - kept[at].2)),
                ));
            }
        }
        let sql = format!(
            "SELECT id, ts, dur, track_id, value, next_value, delta_value
             FROM counter_leading_intervals!((
               WITH v(id, ts, track_id, value) AS (VALUES {}) SELECT * FROM v))",
            rows.join(", ")
        );
        assert_eq!(session.rows(&sql), expected, "{counts:?}");
    }
    session.error("SELECT __intrinsic_counter_intervals('lagging', 1, NULL)");
    session.error("SELECT __intrinsic_counter_intervals('leading', 'a', NULL)");
}

#[test]
fn intervals_are_created_from_each_start_to_the_next_end() {
    let mut session = Session::new();
    session.rows("INCLUDE PERFETTO MODULE intervals.create_intervals");
    let mut random = Random(23);
    for _ in 0..60 {
        let mut times = || -> Vec<i64> {
            let count = 1 + random.below(12);
            let mut times: Vec<i64> = (0..count).map(|_| random.below(30) as i64).collect();
            times.sort_unstable();
            times
        };
        let (starts, ends) = (times(), times());
        let expected: Vec<String> = starts
            .iter()
            .filter_map(|start| {
                let end = ends.iter().find(|end| *end > start)?;
                Some(format!("{start},{}", end - start))
            })
            .collect();
        let list = |times: &[i64]| {
            let rows: Vec<String> = times.iter().map(|ts| format!("({ts})")).collect();
            format!("(SELECT column1 AS ts FROM (VALUES {}))", rows.join(", "))
        };
        let sql = format!(
            "SELECT ts, dur FROM _interval_create!({}, {})",
            list(&starts),
            list(&ends)
        );
        assert_eq!(session.rows(&sql), expected, "{starts:?} {ends:?}");
    }
}

#[test]
fn flattened_intervals_are_the_innermost_at_each_time() {
    let mut session = Session::new();
    session.rows("INCLUDE PERFETTO MODULE intervals.overlap");
    let mut random = Random(24);
    for _ in 0..60 {
        // Nested intervals in a root: each lies in one before it, after its siblings.
        let mut all: Vec<(usize, i64, i64)> = vec![(0, 10, 50)];
        for _ in 0..random.below(10) {
            let parent = random.below(all.len() as u64) as usize;
            let siblings = all.iter().skip(1).filter(|child| child.0 == parent);
            let from = siblings.map(|child| child.2).max().unwrap_or(all[parent].1);
            let ts = from + random.below(4) as i64;
            let end = ts + 1 + random.below(9) as i64;
            if end <= all[parent].2 {
                all.push((parent, ts, end));
            }
        }
        let rows: Vec<String> = all
            .iter()
            .enumerate()
            .skip(1)
            .map(|(id, (parent, ts, end))| format!("(0, {id}, {parent}, {ts}, {})", end - ts))
            .collect();
        let children = if rows.is_empty() {
            "SELECT 0 AS root_id, 0 AS id, 0 AS parent_id, 0 AS ts, 0 AS dur WHERE 0".to_owned()
        } else {
            let rows = rows.join(", ");
            format!("WITH v(root_id, id, parent_id, ts, dur) AS (VALUES {rows}) SELECT * FROM v")
        };
        let sql = format!(
            "SELECT root_id, id, ts, dur FROM _intervals_flatten!(
               _intervals_merge_root_and_children!((SELECT 0 AS id, 10 AS ts, 40 AS dur), ({children})))"
        );
        let mut found = std::collections::BTreeMap::new();
        for row in session.rows(&sql) {
            let row: Vec<i64> = row
                .split(',')
                .map(|n| n.parse().expect("a number"))
                .collect();
            for at in row[2]..row[2] + row[3] {
                assert_eq!(found.insert(at, row[1]), None, "{all:?}");
            }
        }
        // The last interval that contains a time is the innermost one.
        let innermost = |at: i64| all.iter().rposition(|(_, ts, end)| *ts <= at && at < *end);
        let expected = (10..50).filter_map(|at| Some((at, innermost(at)? as i64)));
        assert_eq!(found, expected.collect(), "{all:?}");
    }
}
