//! Functions of times: conversions between clocks, and formats.

use std::sync::Arc;

use datafusion::arrow::array::{Int64Array, StringArray};
use datafusion::arrow::datatypes::DataType;

use super::{ArrayFunction, only_integers, reals, texts};

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

/// Converts a time by the snapshots of a clock.
fn convert(snapshots: &[(i64, i64)], ts: i64) -> Option<i64> {
    let (first, last) = (snapshots.first()?, snapshots.last()?);
    let next = snapshots.partition_point(|(at, _)| *at <= ts);
    if next == 0 {
        return Some(first.1);
    }
    let (at, value) = snapshots[next - 1];
    let value = value.wrapping_add(ts.wrapping_sub(at));
    Some(if next < snapshots.len() && at != last.0 {
        value.min(snapshots[next].1)
    } else {
        value
    })
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

/// Converts days since 1970 to year, month and day.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Formats nanoseconds since 1970 as `YYYY-MM-DDThh:mm:ss.nnnnnnnnn`.
fn date_time(ns: i64) -> String {
    let (seconds, nanos) = (ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000));
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{nanos:09}")
}

/// Formats a duration as `hh:mm:ss mmm uuu nnn`.
fn timecode(ns: i64) -> String {
    let ns = ns.max(0);
    let seconds = ns / 1_000_000_000;
    format!(
        "{:02}:{:02}:{:02} {:03} {:03} {:03}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        ns / 1_000_000 % 1000,
        ns / 1000 % 1000,
        ns % 1000
    )
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
