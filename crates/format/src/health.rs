//! The data of a trace that a reader cannot show.
//!
//! Every reader reports it with the same names and sentences, those of the table `stats`, and with
//! the same exit code. Losses of the recording are not part of it: they are not in the file.

use std::collections::BTreeMap;
use std::fmt;

use crate::stat::{Severity, Stat};

/// The data of a trace that a reader leaves out, by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health(BTreeMap<Stat, u64>);

/// A reason for leaving out data, with the number of cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOut {
    /// The reason.
    pub stat: Stat,
    /// The number of events, packets or other data, as the description of the reason says.
    pub count: u64,
}

impl Health {
    /// Adds to the count of a reason. Statistics that are no error, and losses of the recording, do
    /// not count.
    pub fn add(&mut self, stat: Stat, count: u64) {
        let is_bad = matches!(stat.severity(), Severity::Error | Severity::DataLoss);
        // These packets are counted by the reason, too.
        let is_repeated = stat == Stat::clock_sync_failure_undeferrable_packet_loss;
        if count > 0 && is_bad && !is_repeated && !stat.is_of_recording() {
            let known = self.0.entry(stat).or_default();
            *known = known.saturating_add(count);
        }
    }

    /// Adds the counts of another part of the trace.
    pub fn add_all(&mut self, other: &Self) {
        for (stat, count) in &other.0 {
            self.add(*stat, *count);
        }
    }

    /// Adds the reasons that are missing here.
    pub fn add_missing(&mut self, other: &Self) {
        for (stat, count) in &other.0 {
            self.0.entry(*stat).or_insert(*count);
        }
    }

    /// Returns the count of a reason.
    pub fn count(&self, stat: Stat) -> u64 {
        self.0.get(&stat).copied().unwrap_or(0)
    }

    /// Returns true if nothing is left out.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the reasons with their counts, in the order of the table `stats`.
    pub fn iter(&self) -> impl Iterator<Item = LeftOut> + '_ {
        let all = self.0.iter();
        all.map(|(stat, count)| LeftOut {
            stat: *stat,
            count: *count,
        })
    }
}

impl fmt::Display for LeftOut {
    /// Writes for example `2 left out: track events without a sequence
    /// (track_event_missing_sequence_id)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.stat.description();
        let text = text.strip_suffix('.').unwrap_or(text);
        let mut rest = text.chars();
        let first = rest.next().map(|first| match rest.clone().next() {
            // An abbreviation stays as it is.
            Some(second) if second.is_uppercase() => first,
            _ => first.to_ascii_lowercase(),
        });
        let first = first.map(String::from).unwrap_or_default();
        let name = self.stat.name();
        write!(
            f,
            "{} left out: {first}{} ({name})",
            self.count,
            rest.as_str()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Health;
    use crate::stat::Stat;

    #[test]
    fn losses_of_the_recording_and_remarks_are_not_left_out() {
        let mut health = Health::default();
        health.add(Stat::traced_buf_sequence_packet_loss, 1);
        health.add(Stat::ftrace_cpu_has_data_loss, 1);
        health.add(Stat::packet_skipped_seq_needs_incremental_state_invalid, 1);
        health.add(Stat::track_event_missing_timestamp, 0);
        assert!(health.is_empty());
        health.add(Stat::track_event_missing_sequence_id, 2);
        let shown: Vec<_> = health.iter().map(|one| one.to_string()).collect();
        let expected =
            "2 left out: track events without a sequence (track_event_missing_sequence_id)";
        assert_eq!(shown, [expected]);
    }
}
