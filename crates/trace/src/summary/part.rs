//! The time window of a trace that is a part of another one.

use ferretto_proto::fields::trace_attributes::{ATTRIBUTE, attribute};
use ferretto_text::amount::human_time;
use ferretto_wire::Fields;

/// The attribute with the start time of a part of a trace, in nanoseconds of boot time.
pub const PART_FROM_ATTRIBUTE: &str = "ferretto.part.from";
/// The attribute with the end time (exclusive) of a part of a trace, in nanoseconds of boot time.
pub const PART_TO_ATTRIBUTE: &str = "ferretto.part.to";

/// The start and end times of a part, if known. The last attributes are used: in a part of a part,
/// they are those of the innermost one.
#[derive(Debug, Default)]
pub(super) struct Part {
    from: Option<u64>,
    to: Option<u64>,
}

impl Part {
    /// Reads a `TraceAttributes`.
    pub(super) fn attributes(&mut self, bytes: &[u8]) {
        for entry in Fields::new(bytes).map_while(Result::ok) {
            let Some(entry) = entry.as_bytes().filter(|_| entry.number == ATTRIBUTE) else {
                continue;
            };
            let find = |number| Fields::find(number, entry);
            let key = find(attribute::KEY).and_then(|key| key.as_bytes());
            let value = || find(attribute::LONG_VALUE).and_then(|value| value.as_u64());
            if key == Some(PART_FROM_ATTRIBUTE.as_bytes()) {
                self.from = value();
            } else if key == Some(PART_TO_ATTRIBUTE.as_bytes()) {
                self.to = value();
            }
        }
    }

    /// Returns both times if the trace is a part.
    pub(super) fn window(&self) -> Option<(u64, u64)> {
        self.from.zip(self.to).filter(|(from, to)| from <= to)
    }

    /// Returns a sentence about the original recording, with its start and end times.
    pub(super) fn note(&self, start: Option<u64>, end: Option<u64>) -> Option<String> {
        let (from, to) = self.window()?;
        let before = start.and_then(|start| from.checked_sub(start));
        let after = end.and_then(|end| end.checked_sub(to));
        Some(match (before, after) {
            (Some(before), Some(after)) => format!(
                "a part of a recording of {}: it begins {} after the recording did",
                human_time(before + (to - from) + after),
                human_time(before)
            ),
            (Some(before), None) => format!(
                "a part of a recording: it begins {} after the recording did",
                human_time(before)
            ),
            _ => "a part of a longer recording".to_owned(),
        })
    }
}
