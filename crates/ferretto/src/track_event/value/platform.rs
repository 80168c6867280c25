//! Times, network addresses and errors.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::num::{ParseFloatError, ParseIntError};
use std::str::Utf8Error;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::annotation::{Annotation, Argument};
use super::wrappers::error;
use crate::track_event::clock::now;

macro_rules! displayed {
    ($($type:ty),+) => {
        $(impl Argument for $type {
            fn write(&self, annotation: &mut Annotation<'_>) {
                annotation.display(self);
            }
        })+
    };
}

displayed!(
    IpAddr,
    Ipv4Addr,
    Ipv6Addr,
    SocketAddr,
    SocketAddrV4,
    SocketAddrV6
);
displayed!(ParseIntError, ParseFloatError, Utf8Error, fmt::Error);

macro_rules! errors {
    ($($type:ty),+) => {
        $(impl Argument for $type {
            fn write(&self, annotation: &mut Annotation<'_>) {
                annotation.display(error(self));
            }
        })+
    };
}

errors!(
    io::Error,
    dyn Error,
    dyn Error + Send,
    dyn Error + Send + Sync
);

impl Argument for Duration {
    fn write(&self, annotation: &mut Annotation<'_>) {
        annotation.uint(nanoseconds(*self));
    }
}

impl Argument for Instant {
    fn write(&self, annotation: &mut Annotation<'_>) {
        let (here, there) = (Self::now(), now());
        annotation.uint(match self.checked_duration_since(here) {
            Some(ahead) => there.saturating_add(nanoseconds(ahead)),
            None => there.saturating_sub(nanoseconds(here.duration_since(*self))),
        });
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Argument for SystemTime {
    fn write(&self, annotation: &mut Annotation<'_>) {
        annotation.display(Utc::new(*self));
    }
}

/// A time in UTC, displayed as in RFC 3339.
struct Utc {
    /// The days since 1970, rounded down.
    days: i64,
    seconds: u32,
    nanoseconds: u32,
}

impl Utc {
    fn new(time: SystemTime) -> Self {
        const DAY: i64 = 24 * 60 * 60;
        let nanoseconds = match time.duration_since(UNIX_EPOCH) {
            Ok(after) => i128::try_from(after.as_nanos()).unwrap_or(i128::MAX),
            Err(error) => -i128::try_from(error.duration().as_nanos()).unwrap_or(i128::MAX),
        };
        // The kernel's times have 64-bit seconds.
        let seconds = nanoseconds.div_euclid(1_000_000_000) as i64;
        Self {
            days: seconds.div_euclid(DAY),
            seconds: seconds.rem_euclid(DAY) as u32,
            nanoseconds: nanoseconds.rem_euclid(1_000_000_000) as u32,
        }
    }

    /// Returns year, month and day of the Gregorian calendar. Years start in March here, so that
    /// leap days come last.
    fn date(&self) -> (i64, i64, i64) {
        const ERA: i64 = 146_097;
        let days = self.days + 719_468;
        let era = days.div_euclid(ERA);
        let day = days.rem_euclid(ERA);
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day_of_month = day - (153 * month + 2) / 5 + 1;
        let is_next_year = month >= 10;
        let month = if is_next_year { month - 9 } else { month + 3 };
        let year = era * 400 + year + i64::from(is_next_year);
        (year, month, day_of_month)
    }
}

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.date();
        let (hour, minute) = (self.seconds / 3600, self.seconds / 60 % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:")?;
        write!(f, "{:02}.{:09}Z", self.seconds % 60, self.nanoseconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_displayed_in_utc() {
        let text = |seconds: i64, nanoseconds: u64| {
            let whole = Duration::from_secs(seconds.unsigned_abs());
            let time = if seconds < 0 {
                UNIX_EPOCH - whole
            } else {
                UNIX_EPOCH + whole
            };
            Utc::new(time + Duration::from_nanos(nanoseconds)).to_string()
        };
        assert_eq!(text(0, 0), "1970-01-01T00:00:00.000000000Z");
        assert_eq!(text(-1, 5), "1969-12-31T23:59:59.000000005Z");
        assert_eq!(text(951_782_400, 0), "2000-02-29T00:00:00.000000000Z");
        assert_eq!(text(1_709_251_199, 1), "2024-02-29T23:59:59.000000001Z");
        assert_eq!(text(1_709_251_200, 0), "2024-03-01T00:00:00.000000000Z");
        assert_eq!(text(4_107_542_400, 0), "2100-03-01T00:00:00.000000000Z");
        assert_eq!(text(-62_135_596_800, 0), "0001-01-01T00:00:00.000000000Z");
        assert_eq!(
            text(253_402_300_799, 999_999_999),
            "9999-12-31T23:59:59.999999999Z"
        );
    }
}
