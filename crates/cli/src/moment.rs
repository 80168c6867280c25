//! Times in a trace on command lines: `--from` and `--to`.

use std::time::Duration;

use crate::duration::parse_duration;

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
        parse_duration(text).map(Self::After)
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
