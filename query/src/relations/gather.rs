//! Values of rows that are far apart, read in one loop for each kind of column: the processor waits
//! for the memory of many of them at a time.

use ferretto_tables::{ColumnView, StringId, Value, Values};

/// Returns a part of each value of some rows, which are those of [`ColumnView::get`].
pub(super) fn gather<T>(view: &ColumnView<'_>, rows: &[u32], part: impl Fn(Value) -> T) -> Vec<T> {
    match view.values {
        Values::U32(values) => each(view, values, rows, |value| part(Value::Int(value.into()))),
        Values::I32(values) => each(view, values, rows, |value| part(Value::Int(value.into()))),
        Values::I64(values) => each(view, values, rows, |value| part(Value::Int(value))),
        Values::Text(values) => each(view, values, rows, |value| match value {
            StringId::NULL => part(Value::Null),
            text => part(Value::Text(text)),
        }),
        _ => None,
    }
    .unwrap_or_else(|| {
        let values = rows.iter().map(|row| view.get(*row as usize));
        values.map(part).collect()
    })
}

/// Returns a part of each value of a column; `None` if one is NULL or not there.
fn each<N: Copy, T>(
    view: &ColumnView<'_>,
    values: &[N],
    rows: &[u32],
    part: impl Fn(N) -> T,
) -> Option<Vec<T>> {
    if view.validity.is_some() {
        return None;
    }
    let values = rows.iter().map(|row| values.get(*row as usize).copied());
    values.map(|value| value.map(&part)).collect()
}

#[cfg(test)]
mod tests {
    use ferretto_tables::{Options, TableId, Trace};

    use super::*;

    #[test]
    fn gathered_values_are_those_of_each_row() {
        let text: String = (0..600)
            .map(|at| {
                let (ts, dur) = (at * 10, at % 7);
                let name = ["a", "b", ""][at % 3];
                format!(r#"{{"ph":"X","name":"{name}","pid":1,"tid":{at},"ts":{ts},"dur":{dur}}},"#)
            })
            .collect();
        let json = format!("[{}]", text.trim_end_matches(','));
        let trace = Trace::read(json.as_bytes(), &Options::default()).expect("a trace");
        let mut read = 0;
        for id in TableId::ALL.iter().copied() {
            let table = trace.tables().table(id);
            // Also one that is not there.
            let last = table.rows() as u32;
            let rows: Vec<u32> = (0..=last).rev().step_by(3).chain([last, 0]).collect();
            for column in 0..id.spec().columns.len() {
                let Some(view) = table.column(column) else {
                    continue;
                };
                let expected: Vec<Value> = rows.iter().map(|at| view.get(*at as usize)).collect();
                assert_eq!(gather(&view, &rows, |value| value), expected);
                read += expected.len();
            }
        }
        assert!(read > 1000, "{read}");
    }
}
