//! Mipmaps and windows, compared with simple programs, and percentiles.

use crate::common::{Random, Session};

/// A slice: its time, duration and depth. The id is its place.
type Slice = (i64, i64, i64);

/// Returns the rows of a mipmap of slices in the order of time, as a list is searched from its
/// start for each step.
fn expected_slices(slices: &[Slice], start: i64, end: i64, step: i64) -> Vec<String> {
    let mut rows = Vec::new();
    for depth in 0..3 {
        let of_depth: Vec<(usize, Slice)> = slices
            .iter()
            .copied()
            .enumerate()
            .filter(|(_, slice)| slice.2 == depth)
            .collect();
        let mut first = of_depth.iter().filter(|(_, slice)| slice.0 < start).count();
        let next = of_depth.get(first).map(|(_, slice)| slice.0);
        if first > 0 && next != Some(start) {
            first -= 1;
        }
        let mut at = start;
        while at < end {
            at += step;
            let past = of_depth.iter().filter(|(_, slice)| slice.0 < at).count();
            if first < past {
                let step_slices = &of_depth[first..past];
                let longest = step_slices.iter().map(|(_, slice)| slice.1).max();
                let (id, (ts, dur, _)) = step_slices
                    .iter()
                    .find(|(_, slice)| Some(slice.1) == longest)
                    .expect("a slice");
                rows.push(format!("{ts},{id},{},{dur},{depth}", past - first));
                first = past;
            }
        }
    }
    rows
}

#[test]
fn slice_mipmaps_have_the_longest_slice_of_each_step() {
    let mut session = Session::new();
    let mut random = Random(11);
    for round in 0..40 {
        // A few rounds have more slices than one block of a level.
        let count = 1 + random.below(if round % 8 == 0 { 1500 } else { 40 });
        let mut slices: Vec<Slice> = (0..count)
            .map(|_| {
                let [ts, dur, depth] = [60, 12, 3].map(|limit| random.below(limit) as i64);
                (ts, dur - 1, depth)
            })
            .collect();
        slices.sort_by_key(|slice| slice.0);
        let values: Vec<String> = slices
            .iter()
            .enumerate()
            .map(|(id, (ts, dur, depth))| format!("({id}, {ts}, {dur}, {depth})"))
            .collect();
        session.rows(&format!(
            "CREATE PERFETTO TABLE s{round} AS
             WITH s(id, ts, dur, depth) AS (VALUES {}) SELECT * FROM s;
             CREATE VIRTUAL TABLE m{round} USING __intrinsic_slice_mipmap((
               SELECT id, ts, dur, depth FROM s{round} ORDER BY ts))",
            values.join(", ")
        ));
        for _ in 0..10 {
            let [start, length, step] = [60, 70, 20].map(|limit| random.below(limit) as i64);
            let (end, step) = (start + length - 5, step + 1);
            let sql =
                format!("SELECT ts, id, count, dur, depth FROM m{round}({start}, {end}, {step})");
            let expected = expected_slices(&slices, start, end, step);
            assert_eq!(session.rows(&sql), expected, "{sql} of {slices:?}");
        }
    }
}

#[test]
fn counter_mipmaps_have_the_extremes_of_each_step() {
    let mut session = Session::new();
    let mut random = Random(12);
    for round in 0..40 {
        let count = 1 + random.below(40);
        let mut counts: Vec<(i64, i64)> = (0..count)
            .map(|_| (random.below(60) as i64, random.below(9) as i64 - 4))
            .collect();
        counts.sort_by_key(|count| count.0);
        let values: Vec<String> = counts
            .iter()
            .map(|(ts, value)| format!("({ts}, {value})"))
            .collect();
        session.rows(&format!(
            "CREATE VIRTUAL TABLE c{round} USING __intrinsic_counter_mipmap((
               WITH c(ts, value) AS (VALUES {}) SELECT ts, value FROM c))",
            values.join(", ")
        ));
        for _ in 0..10 {
            let [start, length, step] = [60, 70, 20].map(|limit| random.below(limit) as i64);
            let (end, step) = (start + length - 5, step + 1);
            let mut expected = Vec::new();
            let mut first = counts.iter().filter(|count| count.0 < start).count();
            if first > 0 && counts.get(first).is_none_or(|count| count.0 != start) {
                first -= 1;
            }
            let mut at = start;
            while at < end {
                at += step;
                let past = counts.iter().filter(|count| count.0 < at).count();
                if first < past {
                    let values = counts[first..past].iter().map(|count| count.1);
                    let (min, max) = (values.clone().min(), values.max());
                    let (last_ts, last) = counts[past - 1];
                    let (min, max) = (min.expect("a value"), max.expect("a value"));
                    expected.push(format!("{min}.000000,{max}.000000,{last_ts},{last}.000000"));
                    first = past;
                }
            }
            let sql = format!("SELECT * FROM c{round}({start}, {end}, {step})");
            assert_eq!(session.rows(&sql), expected, "{sql} of {counts:?}");
        }
    }
}

#[test]
fn mipmaps_bear_extreme_ranges_and_input() {
    let mut session = Session::new();
    session.rows(
        "CREATE VIRTUAL TABLE m USING __intrinsic_slice_mipmap((SELECT id, ts, dur, depth FROM slice));
         CREATE VIRTUAL TABLE none USING __intrinsic_slice_mipmap((SELECT 1, 2, 3, 4 WHERE 0));
         CREATE VIRTUAL TABLE IF NOT EXISTS m USING __intrinsic_slice_mipmap((SELECT 1))",
    );
    let all = "(-9223372036854775807 - 1, 9223372036854775807, 1)";
    assert_eq!(session.rows(&format!("SELECT id FROM m{all}")).len(), 4);
    assert!(
        session
            .rows(&format!("SELECT id FROM none{all}"))
            .is_empty()
    );
    assert!(session.rows("SELECT id FROM m(10, 5, 1)").is_empty());
    for sql in [
        "SELECT * FROM m(0, 10, 0)",
        "SELECT * FROM m(0, 10, -1)",
        "SELECT * FROM m(0, 10)",
        "SELECT * FROM m(0, 10, 'a')",
        "CREATE VIRTUAL TABLE m USING __intrinsic_slice_mipmap(slice)",
        "CREATE VIRTUAL TABLE x USING __intrinsic_slice_mipmap((SELECT 1))",
        "CREATE VIRTUAL TABLE x USING __intrinsic_slice_mipmap(slice, slice)",
        "CREATE VIRTUAL TABLE x USING __intrinsic_counter_mipmap((SELECT 1))",
    ] {
        session.error(sql);
    }
    session.rows("DROP TABLE m");
    session.error(&format!("SELECT * FROM m{all}"));
    session.rows("CREATE VIRTUAL TABLE m USING __intrinsic_counter_mipmap(counter)");
    assert_eq!(
        session.rows("SELECT last_value FROM m(0, 5000, 5000)"),
        ["5.000000"]
    );
}

#[test]
fn windows_are_steps_of_a_range() {
    let mut session = Session::new();
    session.rows(
        "CREATE VIRTUAL TABLE w USING __intrinsic_window(10, 25, 10);
         CREATE VIRTUAL TABLE whole USING __intrinsic_window(-5, 25, 0);
         CREATE VIRTUAL TABLE many USING __intrinsic_window(0, 9223372036854775807, 1);
         CREATE PERFETTO TABLE spans AS SELECT 15 AS ts, 10 AS dur, 'a' AS name;
         CREATE VIRTUAL TABLE j USING SPAN_JOIN(w, spans)",
    );
    assert_eq!(
        session.rows("SELECT * FROM w"),
        ["10,10,0", "20,10,1", "30,10,2"]
    );
    assert_eq!(
        session.rows("SELECT ts, dur, quantum_ts FROM j"),
        ["15,5,0", "20,5,1"]
    );
    assert_eq!(session.rows("SELECT ts FROM w WHERE rowid = 0"), ["10"]);
    assert_eq!(
        session.rows("SELECT ts, dur, quantum, window_start, window_dur FROM whole"),
        ["-5,25,0,-5,25"]
    );
    assert_eq!(session.rows("SELECT ts FROM many LIMIT 2"), ["0", "1"]);
    for arguments in [
        "(1, 2)",
        "(1, 2, -1)",
        "(1, 2, x)",
        "(9223372036854775807, 5, 1)",
    ] {
        session.error(&format!(
            "CREATE VIRTUAL TABLE x USING __intrinsic_window{arguments}"
        ));
    }
}

#[test]
fn percentiles_lie_between_values() {
    let mut session = Session::new();
    let of = |function: &str| format!("(SELECT {function} FROM (VALUES (10), (NULL), (40), (20)))");
    assert_eq!(session.value(&of("PERCENTILE(column1, 50)")), "20.000000");
    assert_eq!(session.value(&of("percentile(column1, 75)")), "30.000000");
    assert_eq!(session.value(&of("percentile(column1, 100)")), "40.000000");
    assert_eq!(
        session.value(&of("percentile_cont(column1, 0.25)")),
        "15.000000"
    );
    assert_eq!(
        session.value(&of("percentile_disc(column1, 0.75)")),
        "20.000000"
    );
    assert_eq!(session.value(&of("median(column1)")), "20.000000");
    assert_eq!(session.value("(SELECT median(1) WHERE 0)"), "\"[NULL]\"");
    for function in [
        "percentile(column1, 101)",
        "percentile(column1, column1)",
        "median('a')",
    ] {
        session.error(&format!("SELECT {}", of(function)));
    }
}
