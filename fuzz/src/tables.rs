//! Files of any format as tables.

use ferretto_tables::{Options, Table, Trace, Value};
use ferretto_trace::Limits;

/// The memory that tables may take. The files are small.
const MEMORY: usize = 64 << 20;

/// A file of a format that the tables are made from, or what might be one.
pub fn tables(data: &[u8]) {
    for full_sort in [false, true] {
        let options = Options {
            limits: Limits::memory(0),
            memory: MEMORY,
            threads: 1,
            full_sort,
            ..Options::default()
        };
        match Trace::read(data, &options) {
            Ok(trace) => check(&trace),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

/// Checks that every value can be read, and that rows refer to rows that are there.
fn check(trace: &Trace) {
    assert!(trace.memory() < 2 * MEMORY, "{}", trace.memory());
    for table in trace.tables().all() {
        let spec = table.spec();
        for (number, column) in spec.columns.iter().enumerate() {
            let values = table.column(number).expect("a column");
            for row in 0..table.rows() {
                if let Value::Text(text) = values.get(row) {
                    let _ = trace.strings().text(text);
                }
            }
            // Above a row are only rows before it, so that nothing is its own parent.
            if column.name == "parent_id" {
                for row in 0..table.rows() {
                    if let Value::Int(parent) = values.get(row) {
                        assert!(parent >= 0 && parent < row as i64, "{}", spec.name);
                    }
                }
            }
        }
    }
    let refers = |table: &dyn Table, column: &str, to: usize| {
        let Some(values) = table.column_by_name(column) else {
            return;
        };
        for row in 0..table.rows() {
            if let Value::Int(value) = values.get(row) {
                assert!((0..to as i64).contains(&value), "{column}: {value} of {to}");
            }
        }
    };
    let tables = trace.tables();
    let rows = |name: &str| trace.table(name).map_or(0, Table::rows);
    for table in tables.all() {
        for (column, of) in [
            ("track_id", "track"),
            ("utid", "thread"),
            ("upid", "process"),
            ("slice_id", "slice"),
            ("callsite_id", "stack_profile_callsite"),
            ("frame_id", "stack_profile_frame"),
            ("mapping", "stack_profile_mapping"),
            ("ucpu", "cpu"),
            ("machine_id", "machine"),
        ] {
            refers(table, column, rows(of));
        }
    }
}
