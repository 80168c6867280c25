//! Clock readings and formats of times. No SQL engine is needed for them.

/// Converts a time by the snapshots of a clock.
pub fn convert(snapshots: &[(i64, i64)], ts: i64) -> Option<i64> {
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
pub fn date_time(ns: i64) -> String {
    let (seconds, nanos) = (ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000));
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{nanos:09}")
}

/// Formats a duration as `hh:mm:ss mmm uuu nnn`.
pub fn timecode(ns: i64) -> String {
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
