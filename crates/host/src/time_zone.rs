//! The offset of local time from UTC.

use tz::TimeZone;

/// Returns the offset of local time from UTC in minutes at `realtime` (`CLOCK_REALTIME`,
/// nanoseconds). It is read each time, since a daemon may run across a change to summer time.
pub(crate) fn utc_offset_minutes(realtime: u64) -> Option<i32> {
    let seconds = i64::try_from(realtime / 1_000_000_000).ok()?;
    Some(offset(std::env::var("TZ").ok().as_deref(), seconds))
}

/// Returns the offset as the C library determines it: by `TZ`, else `/etc/localtime`, and UTC if
/// neither is valid.
fn offset(variable: Option<&str>, seconds: i64) -> i32 {
    let zone = match variable {
        Some("") => return 0,
        Some(name) => TimeZone::from_posix_tz(name),
        None => TimeZone::local(),
    };
    let offset = zone.ok().and_then(|zone| {
        let kind = zone.find_local_time_type(seconds).ok()?;
        Some(kind.ut_offset() / 60)
    });
    offset.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_of_zones() {
        let january = 1_704_103_200;
        let july = 1_719_828_000;
        let berlin = "CET-1CEST,M3.5.0,M10.5.0/3";
        assert_eq!(offset(Some(berlin), january), 60);
        assert_eq!(offset(Some(berlin), july), 120);
        assert_eq!(offset(Some("NPT-5:45"), july), 345);
        assert_eq!(offset(Some("BRT+3"), july), -180);
        assert_eq!(offset(Some(""), july), 0);
        assert_eq!(offset(Some("no/such zone"), july), 0);
    }
}
