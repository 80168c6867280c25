//! The final check of a trace: each written packet is in it, or the cause of its loss is known.

use ferretto_proto::TraceStats;

use crate::ledger::{Ledger, Record, Seen};
use crate::tally::Tally;

impl Ledger {
    /// Checks a trace that was read to its end, if the time of its end and its losses are known.
    pub fn check(&self, trace: usize, tally: &mut Tally) {
        let trace = &self.traces[trace];
        let Some(label) = trace.label else { return };
        let (Some(ended), Some(stats)) = (trace.ended, &trace.stats) else {
            return;
        };
        let plan = self.plans.get(&label).copied().unwrap_or_default();
        if trace.clone || trace.broken || plan.partial {
            return;
        }
        let nothing = Seen::default();
        let mut lossy = false;
        for (index, record) in self.writers.iter().enumerate() {
            if record.label != label {
                continue;
            }
            let seen = trace.seen.get(&index).unwrap_or(&nothing);
            let missing = missing_before(record, seen, ended);
            lossy |= missing > 0;
            if missing > 0 && !record.harmed {
                assert!(
                    has_cause(stats, record.buffer),
                    "{missing} packets of writer {index} for session {label} are gone without a \
                     cause: {record:?} {seen:?} {:?}",
                    stats.buffer_stats.get(record.buffer)
                );
            }
        }
        tally.checked += 1;
        tally.checked_with_loss += u64::from(lossy);
    }
}

/// Returns the number of unread packets that were delivered to the service before the end.
fn missing_before(record: &Record, seen: &Seen, end: u64) -> u64 {
    let before = record.delivered.iter().rev().find(|(at, _)| *at < end);
    let expected = before.map_or(0, |(_, count)| *count);
    let behind = expected.saturating_sub(seen.last);
    let gaps = seen.gaps.iter();
    let between: u64 = gaps
        .map(|(from, to)| (to.min(&expected) + 1).saturating_sub(*from))
        .sum();
    behind + between
}

/// Returns true if the statistics of the buffer report a loss.
fn has_cause(stats: &TraceStats, buffer: usize) -> bool {
    let Some(buffer) = stats.buffer_stats.get(buffer) else {
        return false;
    };
    let causes = [
        buffer.chunks_overwritten,
        buffer.chunks_discarded,
        buffer.trace_writer_packet_loss,
        buffer.abi_violations,
        buffer.readaheads_failed,
        buffer.patches_failed,
    ];
    causes.iter().any(|count| count.unwrap_or(0) > 0)
}
