//! Structured queries and summaries.

use std::io::Write;
use std::process::Command;

use ferretto_query::summary::{
    Metrics, Summarizer, SummaryRequest, parse_spec, structured_query, summarize, summary_text,
};

use crate::common::{PROGRAM, Session, TRACE, encode};

/// Returns the rows of a structured query, in text format without its id.
fn rows(query: &str) -> Vec<String> {
    try_rows(&[query]).unwrap_or_else(|error| panic!("{query}: {error}"))
}

/// Returns the rows of the last of the queries, which have the ids q0, q1 and so on.
fn try_rows(queries: &[&str]) -> Result<Vec<String>, String> {
    let spec: String = queries
        .iter()
        .enumerate()
        .map(|(at, query)| format!("query {{ id: \"q{at}\" {query} }}\n"))
        .collect();
    let spec = parse_spec("test", spec.as_bytes()).map_err(|error| error.message)?;
    let id = format!("q{}", queries.len() - 1);
    let sql = structured_query(&[spec], &id).map_err(|error| error.message)?;
    let csv = Session::new()
        .csv(&sql)
        .map_err(|error| error.render(&sql))?;
    Ok(csv.lines().map(str::to_owned).collect())
}

/// Returns a source of literal rows.
fn values(columns: &str, rows: &[&str]) -> String {
    let rows: Vec<_> = rows.iter().map(|row| format!("({row})")).collect();
    let names: Vec<_> = columns
        .split(", ")
        .enumerate()
        .map(|(at, name)| format!("column{} AS {name}", at + 1))
        .collect();
    let (names, rows) = (names.join(", "), rows.join(", "));
    format!("sql {{ sql: \"SELECT {names} FROM (VALUES {rows})\" }}")
}

#[test]
fn tables_are_filtered_grouped_selected_and_sorted() {
    let select = "select_columns { column_name_or_expression: 'name' }";
    let names = rows(&format!(
        "table {{ table_name: 'slice' }} {select}
         filters {{ column_name: 'name' op: GLOB string_rhs: 'inner*' string_rhs: 'later' }}
         filters {{ column_name: 'dur' op: GREATER_THAN int64_rhs: 10 }}
         order_by {{ ordering_specs {{ column_name: 'name' direction: DESC }} }}"
    ));
    assert_eq!(names, ["\"name\"", "\"later\"", "\"inner\""]);
    let limited = rows(&format!(
        "table {{ table_name: 'slice' }} {select}
         order_by {{ ordering_specs {{ column_name: 'ts' }} }} limit: 1 offset: 2"
    ));
    assert_eq!(limited, ["\"name\"", "\"innermost\""]);
    let grouped = rows(&format!(
        "{} group_by {{
           column_names: 'k'
           aggregates {{ op: COUNT result_column_name: 'n' }}
           aggregates {{ column_name: 'v' op: SUM result_column_name: 'sum' }}
           aggregates {{ column_name: 'v' op: MEAN result_column_name: 'mean' }}
           aggregates {{ column_name: 'v' op: MEDIAN result_column_name: 'median' }}
           aggregates {{ column_name: 'v' op: COUNT_DISTINCT result_column_name: 'distinct_v' }}
           aggregates {{ column_name: 'v' op: PERCENTILE percentile: 100 result_column_name: 'p' }}
           aggregates {{ column_name: 'v' op: DURATION_WEIGHTED_MEAN result_column_name: 'w' }}
           aggregates {{ op: CUSTOM custom_sql_expression: 'max(v) - min(v)'
             result_column_name: 'spread' }}
         }}",
        values("k, v, dur", &["'a', 1, 3", "'a', 5, 1", "'b', 7, 2"])
    ));
    assert_eq!(
        grouped,
        [
            r#""k","n","sum","mean","median","distinct_v","p","w","spread""#,
            r#""a",2,6,3.000000,3.000000,2,5.000000,2.000000,4"#,
            r#""b",1,7,7.000000,7.000000,1,7.000000,7.000000,0"#,
        ]
    );
    // Selected columns rename groups and aggregates, or are expressions of them.
    let group = format!(
        "{} group_by {{ column_names: 'k'
           aggregates {{ column_name: 'v' op: SUM result_column_name: 'sum' }} }}",
        values("k, v", &["'a', 1", "'a', 5"])
    );
    let renamed = rows(&format!(
        "{group} select_columns {{ column_name_or_expression: 'sum' alias: 'the total' }}"
    ));
    assert_eq!(renamed, ["\"the total\"", "6"]);
    let computed = rows(&format!(
        "{group} select_columns {{ column_name_or_expression: 'sum * 10' alias: 'tens' }}"
    ));
    assert_eq!(computed, ["\"tens\"", "60"]);
}

#[test]
fn groups_of_filters_nest_and_texts_are_quoted() {
    let found = rows(&format!(
        "{} experimental_filter_group {{
           op: OR
           filters {{ column_name: 'name' op: EQUAL string_rhs: \"it's\" }}
           sql_expressions: 'n = 3 AND 1'
           groups {{ op: AND
             filters {{ column_name: 'n' op: NOT_EQUAL double_rhs: 2.5 }}
             filters {{ column_name: 'name' op: IS_NULL }}
           }}
         }}",
        values("n, name", &["1, 'it''s'", "2, 'x'", "3, 'y'", "4, NULL"])
    ));
    assert_eq!(
        found,
        [r#""n","name""#, r#"1,"it's""#, r#"3,"y""#, r#"4,"[NULL]""#]
    );
}

#[test]
fn slices_texts_and_other_queries_are_sources() {
    let slices = rows(
        "simple_slices { slice_name_glob: 'inn*' thread_name_glob: '*' }
         select_columns { column_name: 'slice_name' } select_columns { column_name: 'dur' }",
    );
    assert_eq!(
        slices,
        [
            r#""slice_name","dur""#,
            r#""inner",40"#,
            r#""innermost",10"#
        ]
    );
    let sql = rows(
        "sql { sql: 'CREATE PERFETTO TABLE made AS SELECT 7 AS a, 8 AS b; SELECT * FROM made' \
         column_names: 'b' }",
    );
    assert_eq!(sql, ["\"b\"", "8"]);
    let depends = rows(
        "sql { sql: 'SELECT $x.v + y.v AS sum FROM $x, ${yy} AS y' \
         dependencies { alias: 'x' query { sql { sql: 'SELECT 1 AS v' } } } \
         dependencies { alias: 'yy' query { sql { sql: 'SELECT 2 AS v' } } } }",
    );
    assert_eq!(depends, ["\"sum\"", "3"]);
    let inner = try_rows(&[
        "sql { sql: 'SELECT 4 AS v' }",
        "inner_query { inner_query_id: 'q0' } select_columns { column_name_or_expression: 'v + 1' \
         alias: 'w' }",
    ]);
    assert_eq!(inner.expect("rows"), ["\"w\"", "5"]);
    let range = rows("experimental_time_range { mode: DYNAMIC dur: 5 }");
    assert_eq!(range[0], r#""id","ts","dur""#);
    assert!(range[1].ends_with(",5"), "{range:?}");
}

#[test]
fn intervals_are_intersected_clipped_and_created() {
    let base = values(
        "id, ts, dur, k",
        &["1, 0, 10, 1", "2, 20, 10, 1", "3, 0, 10, 2"],
    );
    let other = values("id, ts, dur, k", &["7, 5, 20, 1"]);
    let crossed = rows(&format!(
        "interval_intersect {{ base {{ {base} }} interval_intersect {{ {other} }}
           partition_columns: 'k' }}
         select_columns {{ column_name: 'ts' }} select_columns {{ column_name: 'dur' }}
         select_columns {{ column_name: 'id_0' }} select_columns {{ column_name: 'id_1' }}
         order_by {{ ordering_specs {{ column_name: 'ts' }} }}"
    ));
    assert_eq!(
        crossed,
        [r#""ts","dur","id_0","id_1""#, "5,5,1,7", "20,5,2,7"]
    );
    // Overlapping intervals are one.
    let others = values("ts, dur", &["5, 3", "6, 10"]);
    let clipped = rows(&format!(
        "experimental_filter_to_intervals {{ base {{ {base} }} intervals {{ {others} }}
           select_columns: 'id' select_columns: 'ts' }}
         order_by {{ ordering_specs {{ column_name: 'id' }} }}"
    ));
    assert_eq!(
        clipped,
        [r#""ts","dur","id","original_ts""#, "5,5,1,0", "5,5,3,0"]
    );
    let whole = rows(&format!(
        "experimental_filter_to_intervals {{ base {{ {base} }} intervals {{ {others} }}
           clip_to_intervals: false }} order_by {{ ordering_specs {{ column_name: 'id' }} }}"
    ));
    assert_eq!(whole, [r#""id","ts","dur","k""#, "1,0,10,1", "3,0,10,2"]);
    let created = rows(
        "experimental_create_slices {
           starts_query { sql { sql: 'SELECT column1 AS begin FROM (VALUES (1), (5), (30))' } }
           ends_query { sql { sql: 'SELECT column1 AS ts FROM (VALUES (4), (9))' } }
           starts_ts_column: 'begin' }",
    );
    assert_eq!(created, [r#""ts","dur""#, "1,3", "5,4"]);
    let counter = values(
        "id, ts, track_id, value",
        &["0, 10, 1, 2.0", "1, 15, 1, 3.0"],
    );
    let held = rows(&format!(
        "experimental_counter_intervals {{ input_query {{ {counter} }} }}
         select_columns {{ column_name: 'ts' }} select_columns {{ column_name: 'dur' }} limit: 1"
    ));
    assert_eq!(held, [r#""ts","dur""#, "10,5"]);
}

#[test]
fn queries_are_joined_united_and_matched() {
    let (left, right) = (
        values("a, x", &["1, 10", "2, 20"]),
        values("b, y", &["1, 'one'"]),
    );
    let join = rows(&format!(
        "experimental_join {{ type: LEFT left_query {{ {left} }} right_query {{ {right} }}
           equality_columns {{ left_column: 'a' right_column: 'b' }} }}"
    ));
    assert_eq!(
        join,
        [
            r#""a","x","b","y""#,
            r#"1,10,1,"one""#,
            r#"2,20,"[NULL]","[NULL]""#
        ]
    );
    let free = rows(&format!(
        "experimental_join {{ left_query {{ {left} }} right_query {{ {right} }}
           freeform_condition {{ left_query_alias: 'l' right_query_alias: 'r'
             sql_expression: 'l.a > r.b' }} }}"
    ));
    assert_eq!(free[1..], [r#"2,20,1,"one""#]);
    let added = rows(&format!(
        "experimental_add_columns {{ core_query {{ {left} }} input_query {{ {right} }}
           input_columns {{ column_name_or_expression: 'y' alias: 'text' }}
           equality_columns {{ left_column: 'a' right_column: 'b' }} }}"
    ));
    assert_eq!(
        added,
        [r#""a","x","text""#, r#"1,10,"one""#, r#"2,20,"[NULL]""#]
    );
    let matched = rows(&format!(
        "experimental_filter_in {{ base {{ {left} }} match_values {{ {right} }}
           base_column: 'a' match_column: 'b' }}"
    ));
    assert_eq!(matched, [r#""a","x""#, "1,10"]);
    // The columns of a union are matched by their names.
    let side = |first: &str, second: &str| {
        format!(
            "queries {{ sql {{ sql: 'SELECT 1 AS a, 2 AS b' }}
               select_columns {{ column_name: '{first}' }}
               select_columns {{ column_name: '{second}' }} }}"
        )
    };
    let (ab, ba) = (side("a", "b"), side("b", "a"));
    let all = rows(&format!(
        "experimental_union {{ {ab} {ba} use_union_all: true }}"
    ));
    assert_eq!(all, [r#""a","b""#, "1,2", "1,2"]);
    let united = rows(&format!("experimental_union {{ {ab} {ba} }}"));
    assert_eq!(united[1..], ["1,2"]);
}

#[test]
fn wrong_queries_are_refused_with_a_reason() {
    let table = "table { table_name: 'slice' }";
    for (queries, reason) in [
        (vec![""], "has no source"),
        (vec!["table {}"], "'table_name'"),
        (vec!["inner_query_id: 'q0'"], "refers to itself"),
        (
            vec!["inner_query_id: 'other'"],
            "no query with the id 'other'",
        ),
        (
            vec!["inner_query_id: 'q1'", "inner_query_id: 'q0'"],
            "refers to itself",
        ),
        (
            vec!["experimental_union { queries { table { table_name: 'a' } } }"],
            "at least two",
        ),
        (
            vec!["experimental_time_range { mode: STATIC ts: 1 }"],
            "'dur'",
        ),
        (
            vec!["interval_intersect { base { table { table_name: 'a' } } }"],
            "lacks",
        ),
        (vec![&format!("{table} offset: 3")], "needs a LIMIT"),
        (vec![&format!("{table} limit: -1")], "negative"),
        (
            vec![&format!(
                "{table} filters {{ column_name: 'ts' op: EQUAL }}"
            )],
            "string_rhs",
        ),
        (vec![&format!("{table} order_by {{}}")], "ordering_specs"),
        (vec!["nonsense: 1"], "nonsense"),
    ] {
        let error = try_rows(&queries).expect_err(&format!("{queries:?} is refused"));
        assert!(error.contains(reason), "{queries:?}: {error}");
    }
    let mut deep = "sql { sql: 'SELECT 1' }".to_owned();
    for _ in 0..70 {
        deep = format!("inner_query {{ {deep} }}");
    }
    let error = try_rows(&[&deep]).expect_err("too deep");
    assert!(error.contains("deep"), "{error}");
}

/// Returns the summary by a specification, as text without white space.
fn summary(spec: &str, metrics: Metrics) -> Result<String, String> {
    let spec = parse_spec("test", spec.as_bytes()).map_err(|error| error.message)?;
    let request = SummaryRequest {
        specs: vec![spec],
        metrics,
        metadata: None,
    };
    let summary = summarize(&mut Session::new().0, &request).map_err(|error| error.message)?;
    Ok(summary_text(&summary).split_whitespace().collect())
}

#[test]
fn metrics_have_a_row_for_each_group_and_their_specification() {
    let spec = "metric_spec {
        id: 'longest' dimensions: 'slice_name' value: 'longest'
        query {
          simple_slices { slice_name_glob: 'in*' }
          group_by { column_names: 'slice_name'
            aggregates { column_name: 'dur' op: MAX result_column_name: 'longest' } } } }
      metric_spec { id: 'other' value: 'x' query { table { table_name: 'missing' } } }";
    let named = Metrics::Named(vec!["longest".to_owned()]);
    let text = summary(spec, named).expect("a summary");
    for part in [
        "bundle_id:\"longest\"",
        "row{values{double_value:40}dimension{string_value:\"inner\"}}",
        "row{values{double_value:10}dimension{string_value:\"innermost\"}}",
        "specs{id:\"longest\"dimensions:\"slice_name\"value:\"longest\"query{",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let error = summary(spec, Metrics::All).expect_err("a table is missing");
    assert!(
        error.contains("'other'") && error.contains("missing"),
        "{error}"
    );
}

#[test]
fn templates_make_bundles_and_dimensions_have_more_columns() {
    let spec = |rest: &str| {
        format!(
            "query {{ id: 'shared' sql {{ sql: \"SELECT column1 AS k, column2 AS a, column3 AS b \
               FROM (VALUES ('x', 1, 2.5), ('y', NULL, 3), ('z', NULL, NULL))\" }} }}
             metric_template_spec {{
               id_prefix: 'm'
               dimensions_specs {{ name: 'k' type: STRING }}
               value_column_specs {{ name: 'a' unit: COUNT polarity: LOWER_IS_BETTER }}
               value_column_specs {{ name: 'b' custom_unit: 'apples' }}
               dimension_uniqueness: UNIQUE
               query {{ inner_query_id: 'shared' }}
               interned_dimension_specs {{
                 key_column_spec {{ name: 'k' type: STRING }}
                 data_column_specs {{ name: 'color' type: STRING }}
                 query {{ sql {{ sql: \"SELECT column1 AS k, column2 AS color \
                   FROM (VALUES ('x', 'red'), ('w', 'blue'))\" }} }}
               }}
               {rest}
             }}"
        )
    };
    let text = summary(&spec(""), Metrics::All).expect("a summary");
    for part in [
        "bundle_id:\"m\"",
        "row{values{double_value:1}values{double_value:2.5}dimension{string_value:\"x\"}}",
        "row{values{null_value{}}values{double_value:3}dimension{string_value:\"y\"}}",
        "id:\"m_a\"value:\"a\"unit:COUNTpolarity:LOWER_IS_BETTER",
        "id:\"m_b\"value:\"b\"custom_unit:\"apples\"",
        "interned_dimension_bundles{interned_dimension_rows{key_dimension_value{\
         string_value:\"x\"}interned_dimension_values{string_value:\"red\"}}}",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert!(
        !text.contains("string_value:\"z\""),
        "a row without values: {text}"
    );
    assert!(
        !text.contains("string_value:\"blue\""),
        "a key without rows: {text}"
    );
    let alone = summary(&spec("disable_auto_bundling: true"), Metrics::All).expect("a summary");
    assert_eq!(alone.matches("metric_bundles{").count(), 2);
}

#[test]
fn wrong_metrics_are_refused_with_a_reason() {
    let query = "query { sql { sql: \"SELECT column1 AS k, column2 AS v FROM \
                 (VALUES ('x', 1), ('x', 2))\" column_names: 'k' column_names: 'v' } }";
    for (metric, reason) in [
        (format!("value: 'v' {query}"), "no id"),
        (format!("id: 'ALL' value: 'v' {query}"), "'all'"),
        ("id: 'a' value: 'v'".to_owned(), "no query"),
        (format!("id: 'a' value: 'nothing' {query}"), "'nothing'"),
        (format!("id: 'a' value: 'k' {query}"), "not a number"),
        (
            format!("id: 'a' value: 'v' dimensions: 'nothing' {query}"),
            "'nothing'",
        ),
        (
            format!("id: 'a' value: 'v' dimensions_specs {{ name: 'k' type: INT64 }} {query}"),
            "not INT64",
        ),
        (
            format!("id: 'a' value: 'v' dimensions_specs {{ name: 'k' }} {query}"),
            "no type",
        ),
        (
            format!("id: 'a' value: 'v' dimensions: 'k' dimension_uniqueness: UNIQUE {query}"),
            "same dimensions",
        ),
    ] {
        let error = summary(&format!("metric_spec {{ {metric} }}"), Metrics::All);
        let error = error.expect_err(&metric);
        assert!(error.contains(reason), "{metric}: {error}");
    }
    let twice = format!("metric_spec {{ id: 'a' value: 'v' {query} }}").repeat(2);
    let error = summary(&twice, Metrics::All).expect_err("one id twice");
    assert!(error.contains("several metrics"), "{error}");
    let unknown = summary("", Metrics::Named(vec!["b".to_owned()])).expect_err("no such metric");
    assert!(unknown.contains("no metric 'b'"), "{unknown}");
}

#[test]
fn a_failed_summary_leaves_no_tables() {
    let mut session = Session::new();
    let spec = parse_spec(
        "test",
        b"query { id: 's' sql { sql: 'SELECT 1 AS v' } }
          metric_spec { id: 'a' value: 'v' query { inner_query_id: 's' } }
          metric_spec { id: 'b' value: 'w' query { inner_query_id: 's' } }",
    );
    let before = session.table_names();
    let request = SummaryRequest {
        specs: vec![spec.expect("a specification")],
        metrics: Metrics::All,
        metadata: None,
    };
    summarize(&mut session.0, &request).expect_err("there is no column w");
    assert_eq!(session.table_names(), before);
}

#[test]
fn a_summarizer_computes_only_what_changed() {
    let mut session = Session::new();
    let mut summarizer = Summarizer::new(1);
    let spec = |limit: u32| {
        let spec = format!(
            "query {{ id: 'base' sql {{ sql: 'SELECT name, dur FROM slice ORDER BY dur' }} \
               limit: {limit} }}
             query {{ id: 'named' inner_query_id: 'base' \
               filters {{ column_name: 'dur' op: LESS_THAN int64_rhs: 50 }} }}
             query {{ id: 'alone' table {{ table_name: 'thread' }} }}"
        );
        parse_spec("test", spec.as_bytes()).expect("a specification")
    };
    let changed = |states: Vec<ferretto_query::summary::QueryState>| -> Vec<String> {
        let states = states
            .into_iter()
            .filter(|state| state.is_updated || state.is_dropped);
        states.map(|state| state.id).collect()
    };
    let states = summarizer
        .update(&mut session.0, &spec(3))
        .expect("queries");
    assert_eq!(changed(states), ["alone", "base", "named"]);
    let table = summarizer.query(&mut session.0, "named").expect("a query");
    let table = table.expect("a table");
    assert_eq!(
        (table.rows, &table.columns[..]),
        (3, &["name".to_owned(), "dur".to_owned()][..])
    );
    assert_eq!(session.value(&format!("count(*) FROM {}", table.name)), "3");
    assert!(
        table.text.contains("inner_query_id: \"base\""),
        "{}",
        table.text
    );
    let standalone = session.rows(&table.standalone_sql);
    assert_eq!(standalone.len(), 3, "{}", table.standalone_sql);
    summarizer.query(&mut session.0, "alone").expect("a query");

    let states = summarizer
        .update(&mut session.0, &spec(1))
        .expect("queries");
    assert_eq!(changed(states), ["base", "named"]);
    let again = summarizer
        .query(&mut session.0, "named")
        .expect("a query")
        .expect("a table");
    assert_eq!(again.rows, 1);
    assert!(
        !session.table_names().contains(&table.name),
        "the old table is dropped"
    );
    assert!(
        summarizer
            .query(&mut session.0, "none")
            .expect("no error")
            .is_none()
    );

    let states = summarizer.update(&mut session.0, b"").expect("no queries");
    assert_eq!(states.iter().filter(|state| state.is_dropped).count(), 3);
    let left = session.table_names();
    assert!(
        !left.iter().any(|name| name.contains("summarizer")),
        "{left:?}"
    );
}

#[test]
fn the_programs_print_summaries_and_structured_queries() {
    let folder = tempfile::tempdir().expect("folder");
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::File::create(&path)
            .expect("a file")
            .write_all(bytes)
            .expect("written");
        path
    };
    let trace = file("t.pftrace", &encode(TRACE));
    let text = "query { id: 'names' table { table_name: 'slice' } \
                  select_columns { column_name: 'name' } limit: 1 }
                metric_spec { id: 'slices' value: 'n' query { sql { \
                  sql: 'SELECT count(*) AS n FROM slice' } } }
                query { id: 'meta' sql { sql: \"SELECT 'k' AS key, 'v' AS value\" } }";
    let spec = file("spec.textproto", text.as_bytes());
    let encoded = file(
        "spec.pb",
        &parse_spec("spec", text.as_bytes()).expect("a specification"),
    );
    let classic = folder.path().join("trace_processor_shell");
    std::os::unix::fs::symlink(PROGRAM, &classic).expect("link");
    let run = |command: &mut Command| {
        let output = command
            .stdin(std::process::Stdio::null())
            .output()
            .expect("the program");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{error}");
        String::from_utf8(output.stdout).expect("text")
    };
    for spec in [&spec, &encoded] {
        let own = run(Command::new(PROGRAM)
            .arg(&trace)
            .arg("--summarize")
            .arg(spec)
            .args(["--metadata-query", "meta"]));
        assert!(
            own.contains("double_value: 4") && own.contains("key: \"k\""),
            "{own}"
        );
        let theirs = run(Command::new(&classic)
            .args([
                "--summary",
                "--summary-metrics-v2",
                "slices",
                "--summary-spec",
            ])
            .args([spec, &trace]));
        assert!(theirs.contains("double_value: 4"), "{theirs}");
        let own = run(Command::new(PROGRAM)
            .arg(&trace)
            .arg("--summarize")
            .arg(spec)
            .args(["--structured-query", "names", "--format", "csv"]));
        let theirs = run(Command::new(&classic)
            .args(["--structured-query-id", "names", "--structured-query-spec"])
            .args([spec, &trace]));
        assert_eq!(
            (own.as_str(), theirs.as_str()),
            ("\"name\"\n\"outer\"\n", own.as_str())
        );
    }
}
