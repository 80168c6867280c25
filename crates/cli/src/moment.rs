//! Times in a trace on command lines: `--from` and `--to`, `--range`.

use std::ops;
use std::time::Duration;

use crate::duration::parse_offset;

/// A time in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// The time after the first event, which is the zero of the viewer's ruler.
    After(Duration),
    /// Nanoseconds on the clock of the trace, as `ts` in SQL.
    At(u64),
}

impl Moment {
    /// Parses a duration such as `12.5s`, or a number of nanoseconds.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if let Ok(nanoseconds) = text.parse::<u64>()
            && nanoseconds != 0
        {
            return Ok(Self::At(nanoseconds));
        }
        parse_offset(text).map(Self::After)
    }

    /// Returns the time on the clock of a trace whose first event is at `zero`.
    pub(crate) fn in_trace(self, zero: u64) -> u64 {
        match self {
            Self::After(after) => {
                let nanoseconds = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
                zero.saturating_add(nanoseconds)
            }
            Self::At(nanoseconds) => nanoseconds,
        }
    }
}

/// A range of times on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    from: Option<Moment>,
    to: Option<Moment>,
}

impl Range {
    /// Parses `500ms..2s`, `..2s` or `500ms..`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let Some((from, to)) = text.split_once("..") else {
            return Err("expected two times, such as 500ms..2s".to_owned());
        };
        let time = |text: &str| match text.trim() {
            "" => Ok(None),
            text => Moment::parse(text).map(Some),
        };
        let range = Self {
            from: time(from)?,
            to: time(to)?,
        };
        let is_reversed = match (range.from, range.to) {
            (Some(Moment::After(from)), Some(Moment::After(to))) => from >= to,
            (Some(Moment::At(from)), Some(Moment::At(to))) => from >= to,
            _ => false,
        };
        if is_reversed {
            return Err("it ends before it begins".to_owned());
        }
        Ok(range)
    }

    /// Returns the beginning.
    pub(crate) fn from(self) -> Option<Moment> {
        self.from
    }

    /// Returns the end.
    pub(crate) fn to(self) -> Option<Moment> {
        self.to
    }

    /// Returns the part of an interval in the range, for a trace whose first event is at `zero`.
    pub(crate) fn of(self, interval: ops::Range<i64>, zero: i64) -> ops::Range<i64> {
        let time = |moment: Moment| {
            let zero = u64::try_from(zero).unwrap_or(0);
            i64::try_from(moment.in_trace(zero)).unwrap_or(i64::MAX)
        };
        let start = self.from.map_or(interval.start, time);
        let end = self.to.map_or(interval.end, time);
        start.max(interval.start)..end.min(interval.end)
    }
}
