//! Functions of times: conversions between clocks, and formats.

use std::sync::Arc;

use datafusion::arrow::array::{Int64Array, StringArray};
use datafusion::arrow::datatypes::DataType;

use super::{ArrayFunction, only_integers, reals, texts};
use ferretto_query::clock::{convert, date_time, timecode};

/// The clock snapshots and the bounds of a trace.
#[derive(Debug, Default, Clone)]
pub struct Clocks {
    /// The trace time and the value of `MONOTONIC` of each snapshot, in order.
    pub monotonic: Vec<(i64, i64)>,
    /// The trace time and the value of `REALTIME` of each snapshot, in order.
    pub realtime: Vec<(i64, i64)>,
    /// The first and last time of the trace.
    pub bounds: (i64, i64),
}

impl Clocks {
    /// Returns the functions that read these clocks.
    pub fn functions(self) -> Vec<ArrayFunction> {
        use DataType::{Int64, Utf8};
        let (start, end) = self.bounds;
        let clocks = Arc::new(self);
        let constant = |name: &str, value: i64| {
            ArrayFunction::new(name, 0..=0, Int64, move |_, rows| {
                Ok(Arc::new(Int64Array::from_value(value, rows)))
            })
        };
        let clock = |name: &'static str, realtime: bool| {
            let clocks = clocks.clone();
            ArrayFunction::new(name, 1..=1, Int64, move |args, _| {
                let times = only_integers(name, &args[0])?;
                let snapshots = if realtime {
                    &clocks.realtime
                } else {
                    &clocks.monotonic
                };
                let values = times
                    .iter()
                    .map(|ts| ts.and_then(|ts| convert(snapshots, ts)));
                Ok(Arc::new(values.collect::<Int64Array>()))
            })
        };
        let text = clocks.clone();
        vec![
            constant("trace_start", start),
            constant("trace_end", end),
            constant("trace_dur", end.saturating_sub(start)),
            clock("to_monotonic", false),
            clock("to_realtime", true),
            ArrayFunction::new("abs_time_str", 1..=1, Utf8, move |args, _| {
                let times = only_integers("abs_time_str", &args[0])?;
                let texts = times
                    .iter()
                    .map(|ts| ts.and_then(|ts| convert(&text.realtime, ts)).map(date_time));
                Ok(Arc::new(texts.collect::<StringArray>()))
            }),
        ]
    }
}

pub(super) fn functions() -> Vec<ArrayFunction> {
    use DataType::Utf8;
    vec![
        ArrayFunction::new("to_timecode", 1..=1, Utf8, |args, _| {
            let times = only_integers("to_timecode", &args[0])?;
            Ok(Arc::new(
                times
                    .iter()
                    .map(|t| t.map(timecode))
                    .collect::<StringArray>(),
            ))
        }),
        // Only the form of SQLite's `datetime` for seconds since 1970 is supported.
        ArrayFunction::new("datetime", 2..=2, Utf8, |args, _| {
            let modifier = texts(&args[1])?;
            if modifier.iter().flatten().any(|m| m != "unixepoch") {
                return datafusion::common::exec_err!(
                    "datetime: only the modifier 'unixepoch' is supported."
                );
            }
            let seconds = reals(&args[0])?;
            let text = |s: f64| {
                let text = date_time((s.floor() as i64).saturating_mul(1_000_000_000));
                text[..19].replace('T', " ")
            };
            Ok(Arc::new(
                seconds.iter().map(|s| s.map(text)).collect::<StringArray>(),
            ))
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::{convert, date_time, timecode};

    #[test]
    fn times_and_durations_are_formatted() {
        assert_eq!(date_time(0), "1970-01-01T00:00:00.000000000");
        assert_eq!(
            date_time(1_709_210_096_000_000_007),
            "2024-02-29T12:34:56.000000007"
        );
        assert_eq!(date_time(-1), "1969-12-31T23:59:59.999999999");
        assert_eq!(timecode(3_723_004_005_006), "01:02:03 004 005 006");
    }

    #[test]
    fn query_015_clocks_convert_before_between_and_after_snapshots() {
        let snapshots = [(100, 1000), (200, 1050)];
        assert_eq!(convert(&snapshots, 50), Some(1000));
        assert_eq!(convert(&snapshots, 120), Some(1020));
        assert_eq!(convert(&snapshots, 190), Some(1050));
        assert_eq!(convert(&snapshots, 250), Some(1100));
        assert_eq!(convert(&[], 250), None);
    }
}
