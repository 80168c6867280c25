//! Imports traces written as text, and formats tables as text.
#![allow(dead_code, reason = "each test file uses a part of it")]

use ferretto_tables::{Options, Stat, Table, Trace, Value};
use ferretto_text::config::{Unknown, read_message};

/// Encodes a trace from its text form: messages `packet { … }`.
pub(crate) fn encode(text: &str) -> Vec<u8> {
    let read = read_message(
        "perfetto.protos.Trace",
        "trace",
        text.as_bytes(),
        Unknown::Refuse,
    );
    match read.expect("the schema has traces") {
        Ok(parsed) => parsed.bytes,
        Err(error) => panic!("{error:?}"),
    }
}

/// Imports a trace from its text form.
pub(crate) fn import(text: &str) -> Trace {
    import_bytes(&encode(text))
}

/// Imports an encoded trace on one thread and on several, and compares the results.
pub(crate) fn import_bytes(bytes: &[u8]) -> Trace {
    let options = |threads| Options {
        threads,
        ..Options::default()
    };
    let one = Trace::read(bytes, &options(1)).expect("a trace");
    let several = Trace::read(bytes, &options(3)).expect("a trace");
    assert_same(&one, &several);
    several
}

/// Asserts that two traces have the same rows, and the same ids of texts.
pub(crate) fn assert_same(one: &Trace, other: &Trace) {
    for (one_table, other_table) in one.tables().all().zip(other.tables().all()) {
        let name = one_table.spec().name;
        assert_eq!(one_table.rows(), other_table.rows(), "rows of {name}");
        for index in 0..one_table.spec().columns.len() {
            let column = |table: &dyn Table| {
                let column = table.column(index).expect("a column");
                let values: Vec<_> = (0..table.rows()).map(|row| column.get(row)).collect();
                // Compares text, since NaN differs from itself.
                format!("{values:?}")
            };
            let name = one_table.spec().columns[index].name;
            assert_eq!(column(one_table), column(other_table), "values of {name}");
        }
    }
    let texts = |trace: &Trace| {
        trace
            .strings()
            .iter()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(texts(one), texts(other), "texts");
}

/// Returns columns of a table: a line for each row, with values separated by spaces.
pub(crate) fn rows(trace: &Trace, table: &str, columns: &str) -> Vec<String> {
    let table = trace.table(table).expect("table");
    let columns: Vec<_> = columns
        .split_whitespace()
        .map(|name| {
            let column = table.column_by_name(name);
            column.unwrap_or_else(|| panic!("no column {name}"))
        })
        .collect();
    let show = |value| match value {
        Value::Null => "NULL".to_owned(),
        Value::Int(value) => value.to_string(),
        Value::Real(value) => value.to_string(),
        Value::Text(text) => trace.strings().text(text).to_owned(),
    };
    (0..table.rows())
        .map(|row| {
            let values = columns.iter().map(|column| show(column.get(row)));
            values.collect::<Vec<_>>().join(" ")
        })
        .collect()
}

/// Returns the value of an entry of the table `stats` without index.
pub(crate) fn stat(trace: &Trace, name: &str) -> i64 {
    let all = rows(trace, "stats", "name idx value");
    let start = format!("{name} NULL ");
    let row = all.iter().find_map(|row| row.strip_prefix(&start));
    let row = row.unwrap_or_else(|| panic!("no stat {name}"));
    row.parse().expect("a number")
}

/// Returns the arguments of a set as lines `key=value`.
pub(crate) fn args(trace: &Trace, set: Option<u32>) -> Vec<String> {
    use ferretto_tables::schema::ArgValue;
    let Some(set) = set else {
        return Vec::new();
    };
    let strings = trace.strings();
    let show = |value| match value {
        ArgValue::Null => "null".to_owned(),
        ArgValue::Int(value) => value.to_string(),
        ArgValue::Uint(value) => format!("{value}u"),
        ArgValue::Bool(value) => value.to_string(),
        ArgValue::Pointer(value) => format!("{value:#x}"),
        ArgValue::Real(value) => format!("{value:?}"),
        ArgValue::Text(text) => format!("{:?}", strings.text(text)),
        ArgValue::Json(text) => format!("json {:?}", strings.text(text)),
    };
    let all = trace.tables().args.set(set);
    all.map(|arg| format!("{}={}", strings.text(arg.key), show(arg.value)))
        .collect()
}

/// Returns the argument set of a row.
pub(crate) fn arg_set(table: &dyn Table, column: &str, row: usize) -> Option<u32> {
    match table.column_by_name(column).expect("column").get(row) {
        Value::Int(set) => Some(set as u32),
        _ => None,
    }
}

/// Returns the value of a statistic of the trace without index.
pub(crate) fn number(trace: &Trace, stat: Stat) -> i64 {
    trace.stat(stat)
}
