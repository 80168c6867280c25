//! The growth of SQL's operators: the time of each over a million and ten million rows.
//!
//! `operators [ROWS] [ROUNDS]`: a million and three rounds unless said otherwise; the second size
//! is ten times the first. `FERRETTO_QUERY` names the program,
//! `query/target/release/ferretto-query` without it. Each statement runs in a process of its own,
//! over rows that it makes itself; the time is that of the process without the time to make the
//! rows. The least of all rounds counts.

use std::error::Error;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The operators: the statement that makes rows, and the one that reads them.
const OPERATORS: [(&str, &str, &str); 5] = [
    (
        "three-way intersection",
        "CREATE PERFETTO TABLE i AS SELECT value AS id, value * 10 AS ts, 7 AS dur, value % 64 AS k
         FROM generate_series(0, $ROWS - 1)",
        "SELECT count(*) FROM _interval_intersect!((i, i, i), (k))",
    ),
    (
        "counter intervals",
        "CREATE PERFETTO TABLE c AS SELECT value AS id, value AS ts, value % 64 AS track_id,
         value / 128 % 3 AS value FROM generate_series(0, $ROWS - 1)",
        "INCLUDE PERFETTO MODULE counters.intervals;
         SELECT count(*) FROM counter_leading_intervals!(c)",
    ),
    (
        "tree accumulation",
        "CREATE PERFETTO TABLE t AS SELECT value AS id, (value - 1) / 2 AS parent_id, 1 AS n
         FROM generate_series(1, $ROWS)",
        "SELECT max(n) FROM _graph_aggregating_scan!(
           (SELECT id AS source_node_id, parent_id AS dest_node_id FROM t WHERE id > 1),
           (SELECT id, n FROM t WHERE 2 * id + 1 > (SELECT max(id) FROM t)), (n),
           (SELECT x.id, sum(x.n) + 1 AS n FROM $table x GROUP BY x.id))",
    ),
    (
        "dominator tree",
        "CREATE PERFETTO TABLE e AS
         SELECT value / 2 AS source_node_id, value AS dest_node_id FROM generate_series(1, $ROWS)
         UNION ALL SELECT value, value * 7 % $ROWS FROM generate_series(1, $ROWS)",
        "SELECT count(*) FROM graph_dominator_tree!(e, 0)",
    ),
    (
        "critical path",
        "CREATE PERFETTO TABLE w AS SELECT value AS id, value % 64 AS utid, value * 10 AS ts,
         15 AS dur, 300 AS idle_dur, iif(value > 5, value - 5, NULL) AS waker_id,
         iif(value > 64, value - 64, NULL) AS prev_id FROM generate_series(1, $ROWS)",
        "INCLUDE PERFETTO MODULE sched.thread_executing_span;
         SELECT count(*) FROM _critical_path_by_roots!((SELECT id AS root_node_id FROM w), w)",
    ),
];

/// Returns the least time of a text of statements.
fn time(program: &str, sql: &str, rounds: u64) -> Result<Duration> {
    let mut least = Duration::MAX;
    for _ in 0..rounds.max(1) {
        let start = Instant::now();
        let status = Command::new(program)
            .args(["/dev/null", sql])
            .stdout(Stdio::null())
            .status()?;
        if !status.success() {
            return Err(format!("{program} failed: {status}").into());
        }
        least = least.min(start.elapsed());
    }
    Ok(least)
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| match arguments.get(at) {
        Some(text) => text.parse().map_err(Box::<dyn Error>::from),
        None => Ok(default),
    };
    let (rows, rounds) = (number(0, 1_000_000)?, number(1, 3)?);
    let program = std::env::var("FERRETTO_QUERY")
        .unwrap_or_else(|_| "query/target/release/ferretto-query".to_owned());
    println!(
        "{:24} {:>12} {:>12} {:>8}",
        "operator",
        rows,
        rows * 10,
        "growth"
    );
    for (name, make, read) in OPERATORS {
        let mut times = Vec::new();
        for rows in [rows, rows * 10] {
            let make = make.replace("$ROWS", &rows.to_string());
            let without = time(&program, &make, rounds)?;
            let with = time(&program, &format!("{make}; {read}"), rounds)?;
            times.push(with.saturating_sub(without).as_secs_f64());
        }
        let growth = times[1] / times[0].max(f64::MIN_POSITIVE);
        println!(
            "{name:24} {:>10.2} s {:>10.2} s {growth:>8.1}",
            times[0], times[1]
        );
    }
    Ok(())
}
