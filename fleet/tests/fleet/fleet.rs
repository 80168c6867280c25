//! Queries over many traces.

use std::path::{Path, PathBuf};
use std::process::Output;

use crate::common::{TRACE, encode, lines, query};

/// A folder with traces that differ in the number of slices.
struct Traces {
    folder: tempfile::TempDir,
}

/// Returns a trace with `count` further slices, which are numbered by their arguments.
fn trace(count: usize) -> Vec<u8> {
    let mut text = TRACE.to_owned();
    for number in 0..count {
        let (begin, end) = (2000 + number * 10, 2005 + number * 10);
        text += &format!(
            r#"
packet {{ trusted_packet_sequence_id: 1 timestamp: {begin}
  track_event {{ track_uuid: 3 type: TYPE_SLICE_BEGIN name: "work"
    debug_annotations {{ name: "number" int_value: {number} }} }} }}
packet {{ trusted_packet_sequence_id: 1 timestamp: {end}
  track_event {{ track_uuid: 3 type: TYPE_SLICE_END }} }}
"#
        );
    }
    encode(&text)
}

impl Traces {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("folder");
        std::fs::create_dir(folder.path().join("in")).expect("folder");
        for count in 0..4 {
            let path = folder.path().join(format!("in/{count}.pftrace"));
            std::fs::write(path, trace(count)).expect("trace");
        }
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn pattern(&self) -> String {
        self.path("in/**/*.pftrace").to_string_lossy().into_owned()
    }

    /// Adds a file that is not a trace.
    fn add_invalid(&self) {
        std::fs::write(self.path("in/bad.pftrace"), b"nothing that is a trace").expect("file");
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = query();
        command.arg(self.pattern()).args(arguments);
        command.output().expect("the program")
    }

    fn rows(&self, arguments: &[&str]) -> Vec<String> {
        let output = self.run(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {error}");
        lines(&output)
    }

    fn refusal(&self, sql: &str) -> String {
        let output = self.run(&[sql]);
        assert_eq!(
            output.status.code(),
            Some(1),
            "{sql}: {}",
            lines(&output).join(" ")
        );
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

#[test]
fn many_traces_are_one_table_with_the_trace_of_each_row() {
    let traces = Traces::new();
    assert_eq!(traces.rows(&["select count(*) from slice"]), ["22"]);
    let per = "select path, count(*) as n from slice where name = 'work' group by 1";
    let rows = traces.rows(&[per]);
    assert_eq!(rows.len(), 3, "{rows:?}");
    assert!(rows[2].ends_with("3.pftrace\",3"), "{rows:?}");
    let ids = traces.rows(&["select distinct trace_id from thread"]);
    assert_eq!(ids.len(), 4);
    // With a condition on the trace, the other files are not read.
    traces.add_invalid();
    let one = format!(
        "select count(*) from slice where trace_id = {}",
        ids[0].replace('"', "'")
    );
    assert_eq!(traces.rows(&[&one]).len(), 1);
    let three = "select count(*) from slice where path like '%3.pftrace'";
    assert_eq!(traces.rows(&[three]), ["7"]);
    // A single trace has no additional columns.
    let single = query()
        .arg(traces.path("in/3.pftrace"))
        .arg("select * from slice limit 1")
        .output();
    let single = single.expect("the program");
    assert!(!String::from_utf8_lossy(&single.stdout).contains("trace_id"));
}

#[test]
fn a_file_that_cannot_be_read_is_reported_at_the_end() {
    let traces = Traces::new();
    traces.add_invalid();
    let output = traces.run(&["select count(*) from slice"]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(lines(&output), ["22"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("1 of 5 traces could not be read"), "{error}");
    assert!(error.contains("bad.pftrace: Unknown trace type"), "{error}");
    let none = query()
        .arg(traces.path("none/*"))
        .arg("select 1")
        .output()
        .expect("the program");
    assert_eq!(none.status.code(), Some(1));
}

/// Queries that return the same rows.
const JOINS: [&str; 4] = [
    "select s.path, t.name, count(*) from slice s
       join thread_track tt on s.track_id = tt.id and s.trace_id = tt.trace_id
       join thread t on t.utid = tt.utid and t.trace_id = s.trace_id group by 1, 2",
    "create perfetto view named as select t.name from slice s
       join thread_track tt on s.track_id = tt.id join thread t using (utid);
     select path, name, count(*) from named group by 1, 2",
    "create perfetto table named as select t.name as name from slice s
       join thread_track tt on s.track_id = tt.id join thread t using (utid);
     select path, name, count(*) from named group by 1, 2",
    "select path, thread_name, count(*) from thread_slice group by 1, 2",
];

#[test]
fn joins_stay_within_traces() {
    let traces = Traces::new();
    let each = "select t.name, count(*) from slice s join thread_track tt on s.track_id = tt.id
                join thread t using (utid) group by 1";
    let mut expected: Vec<String> = traces.rows(&["--per-trace", each]);
    for row in &mut expected {
        let fields: Vec<&str> = row.split(',').collect();
        *row = format!("{},{},{}", fields[3], fields[0], fields[1]);
    }
    expected.sort();
    assert_eq!(expected.len(), 8);
    for sql in &JOINS[..3] {
        assert_eq!(traces.rows(&[sql]), expected, "{sql}");
    }
    let module = "include perfetto module slices.with_context;";
    assert_eq!(traces.rows(&[&format!("{module} {}", JOINS[3])]), expected);
    let mixed =
        traces.refusal("select s.name from slice s join thread_track t on s.track_id = t.id");
    assert!(
        mixed.contains("'s' and 't' are joined across traces"),
        "{mixed}"
    );
    let mixed =
        traces.refusal("select name from slice where track_id in (select id from thread_track)");
    assert!(mixed.contains("joined across traces"), "{mixed}");
    // A join with an aggregate over all traces is allowed.
    let above = "select count(*) from slice s
      join (select name, avg(dur) as mean from slice group by 1) m on s.name = m.name
      where s.dur >= m.mean";
    assert_eq!(traces.rows(&[above]), ["22"]);
}

#[test]
fn functions_that_read_a_trace_are_called_for_each_trace() {
    let traces = Traces::new();
    let number = "extract_arg(arg_set_id, 'debug.number')";
    let sum = format!("select sum({number}) from slice");
    assert_eq!(traces.rows(&[&sum]), ["32"]);
    let group = format!("select {number} as n, count(*) from slice group by 1");
    assert_eq!(
        traces.rows(&[&group]),
        ["\"[NULL]\",12", "0,3", "1,2", "2,1", "7,4"]
    );
    let last = format!(
        "select {number} as n, path from slice where {number} < 7 order by ts desc limit 1"
    );
    assert!(traces.rows(&[&last])[0].starts_with("2,"), "{last}");
    let start = "select path, min(ts - trace_start()) from slice group by 1";
    assert!(traces.rows(&[start]).iter().all(|row| row.ends_with(",0")));
    let refused = traces.refusal(
        "select * from _interval_intersect!(((select id, ts, dur from slice), (select id, ts, dur from slice)), ())",
    );
    assert!(
        refused.contains("within") || refused.contains("one trace"),
        "{refused}"
    );
}

#[test]
fn table_functions_of_traces_work_in_views_and_per_trace() {
    let traces = Traces::new();
    let call = "SELECT count(*) AS n, sum(dur) AS dur FROM \
                experimental_flat_slice(1000, 2000) WHERE name = 'inner'";
    let refused = traces.refusal(call);
    let expected = "table function 'experimental_flat_slice' reads rows of one trace";
    assert!(refused.contains(expected), "{refused}");
    let refused = traces.refusal("SELECT * FROM perfetto_table_info('slice')");
    assert!(refused.contains("rows of one trace"), "{refused}");
    let view = format!("CREATE PERFETTO VIEW flat AS {call}; SELECT n, dur, path FROM flat");
    let rows = traces.rows(&[&view]);
    assert_eq!(rows.len(), 4, "{rows:?}");
    assert!(rows.iter().all(|row| row.starts_with("2,30,")), "{rows:?}");
    let rows = traces.rows(&["--per-trace", call]);
    assert_eq!(rows.len(), 4, "{rows:?}");
    assert!(rows.iter().all(|row| row.starts_with("2,30,")), "{rows:?}");
}

#[test]
fn columns_named_as_the_added_ones_are_renamed() {
    let traces = Traces::new();
    let output = traces.run(&["select * from flow limit 1"]);
    let header = String::from_utf8_lossy(&output.stdout)
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned();
    assert!(
        header.contains("\"own_trace_id\"") && header.ends_with("\"trace_id\",\"path\""),
        "{header}"
    );
}

/// Only the tables that a query needs are imported.
#[test]
fn partial_imports_have_the_rows_of_complete_ones() {
    let traces = Traces::new();
    let path = traces.path("in/3.pftrace").to_string_lossy().into_owned();
    for table in [
        "slice",
        "thread",
        "process",
        "thread_track",
        "counter",
        "counter_track",
        "args",
        "flow",
        "track",
    ] {
        let sql = format!("select * from {table}");
        let whole = query().args([&path, &sql]).output().expect("the program");
        let mut part = query();
        let part = part
            .args([&path, &sql, "--per-trace"])
            .output()
            .expect("the program");
        let strip = |line: String| {
            let fields: Vec<&str> = line.split(',').collect();
            fields[..fields.len() - 2].join(",")
        };
        let part: Vec<String> = lines(&part).into_iter().map(strip).collect();
        assert_eq!(part, lines(&whole), "{table}");
    }
}

fn export(traces: &Traces, target: &Path, more: &[&str]) -> Output {
    let mut command = query();
    command
        .arg(traces.pattern())
        .args(more)
        .args(["--export", "parquet"])
        .arg(target);
    command.output().expect("the program")
}

#[tokio::test]
async fn parquet_has_the_rows_of_the_traces() {
    use datafusion::prelude::{ParquetReadOptions, SessionContext};
    let traces = Traces::new();
    let target = traces.path("out");
    let output = export(&traces, &target, &[]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let context = SessionContext::new();
    let options = ParquetReadOptions::default().table_partition_cols(vec![(
        "trace_id".to_owned(),
        datafusion::arrow::datatypes::DataType::Utf8,
    )]);
    let slices = target.join("table=slice").to_string_lossy().into_owned();
    context
        .register_parquet("slice", &slices, options)
        .await
        .expect("slices");
    let traces_file = target
        .join("table=trace/data.parquet")
        .to_string_lossy()
        .into_owned();
    context
        .register_parquet("trace", &traces_file, ParquetReadOptions::default())
        .await
        .expect("traces");
    let sql = "select t.path, s.name, count(*) as n, sum(s.dur) as d from slice s
               join trace t on s.trace_id = t.trace_id group by 1, 2";
    let frame = context.sql(sql).await.expect("plan");
    let batches = frame.collect().await.expect("rows");
    let mut read: Vec<String> = Vec::new();
    for batch in &batches {
        for row in 0..batch.num_rows() {
            let cell = |at: usize| {
                datafusion::arrow::util::display::array_value_to_string(batch.column(at), row)
                    .expect("cell")
            };
            read.push(format!(
                "\"{}\",\"{}\",{},{}",
                cell(0),
                cell(1),
                cell(2),
                cell(3)
            ));
        }
    }
    read.sort();
    let queried =
        traces.rows(&["select path, name, count(*) as n, sum(dur) as d from slice group by 1, 2"]);
    assert_eq!(read, queried);
    // A table without rows has no folder, and existing files are not changed.
    assert!(!target.join("table=heap_profile_allocation").exists());
    let again = export(&traces, &target, &[]);
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("exists already"));
    let into_input = export(&traces, &traces.path("in"), &[]);
    assert_eq!(into_input.status.code(), Some(1));
    assert_eq!(traces.rows(&["select count(*) from slice"]), ["22"]);
}

/// Returns the number of rows that are read from files, before conditions are checked.
async fn rows_read(folder: &Path, condition: &str) -> usize {
    use datafusion::physical_plan::{ExecutionPlan, collect};
    use datafusion::prelude::{ParquetReadOptions, SessionContext};
    use std::sync::Arc;
    let context = SessionContext::new();
    let folder = folder.to_string_lossy();
    let options = ParquetReadOptions::default();
    let registered = context.register_parquet("t", folder.as_ref(), options);
    registered.await.expect("table");
    let sql = format!("select ts from t where {condition}");
    let frame = context.sql(&sql).await.expect("plan");
    let plan = frame.create_physical_plan().await.expect("plan");
    collect(plan.clone(), context.task_ctx())
        .await
        .expect("rows");
    let mut leaf: Arc<dyn ExecutionPlan> = plan;
    while let Some(below) = leaf.children().first().map(|below| Arc::clone(below)) {
        leaf = below;
    }
    let metrics = leaf.metrics().expect("metrics");
    metrics.output_rows().expect("a count")
}

#[tokio::test]
async fn conditions_on_time_skip_row_groups() {
    let traces = Traces::new();
    let target = traces.path("out");
    // The product of nine tables with four rows is two row groups.
    let joined = ('a'..='i').map(|alias| format!("slice as {alias}"));
    let joined = joined.collect::<Vec<_>>().join(", ");
    let many =
        format!("create perfetto view many as select row_number() over () as ts from {joined}");
    let output = query()
        .arg(traces.path("in/0.pftrace"))
        .args([&many, "--tables", "many", "--export", "parquet"])
        .arg(&target)
        .output()
        .expect("the program");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let many = target.join("table=many");
    assert_eq!(rows_read(&many, "ts > 0").await, 262_144);
    // Only pages of the second group are read, and not all of them.
    let read = rows_read(&many, "ts > 200000").await;
    assert!((62_144..=131_072).contains(&read), "{read}");
    assert_eq!(rows_read(&many, "ts < 0").await, 0);

    // Traces that end before the bound are not read.
    let target = traces.path("all");
    let output = export(&traces, &target, &["--tables", "slice"]);
    assert!(output.status.success());
    let slices = target.join("table=slice");
    assert_eq!(rows_read(&slices, "ts > 0").await, 22);
    assert_eq!(rows_read(&slices, "ts >= 2010").await, 6 + 7);
}

#[test]
fn a_failed_export_leaves_no_files() {
    let traces = Traces::new();
    let target = traces.path("out");
    let output = export(&traces, &target, &["--tables", "slice,nonsense"]);
    assert_eq!(output.status.code(), Some(1));
    let left: Vec<_> = std::fs::read_dir(traces.folder.path())
        .expect("folder")
        .collect();
    assert_eq!(left.len(), 1, "{left:?}");
    // Views can be exported, too, and unreadable traces are rows of the table of traces.
    traces.add_invalid();
    let sql = "create perfetto view work as select ts, dur from slice where name = 'work'";
    let output = export(&traces, &target, &[sql, "--tables", "work"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        target.join("table=work").is_dir() && target.join("table=trace/data.parquet").is_file()
    );
}
