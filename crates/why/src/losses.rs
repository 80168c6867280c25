//! Lost data.

use std::ops::Range;

use ferretto_tables::Lost;
use ferretto_text::amount::{counted, duration, grouped, plural};

use crate::explain::Why;

/// Data that was lost, as the trace tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostData {
    /// The time of the first known event after the loss or of the last one before it.
    pub ts: i64,
    /// The data.
    pub text: String,
}

impl Why<'_> {
    /// Returns the losses within an interval, in the order of time.
    pub fn losses_in(&self, interval: &Range<i64>) -> Vec<LostData> {
        let cpus = &self.trace().tables().cpu;
        let losses = self.trace().losses().iter();
        let losses = losses.filter(|loss| interval.start <= loss.ts && loss.ts <= interval.end);
        let mut lost: Vec<LostData> = losses
            .filter_map(|loss| {
                let text = match loss.lost {
                    Lost::Packets { sequence } => format!("packets of sequence {sequence}"),
                    Lost::KernelEvents { ucpu } => {
                        let cpu = ucpu.and_then(|ucpu| cpus.cpu().get(ucpu));
                        cpu.map_or("kernel events".to_owned(), |cpu| {
                            format!("kernel events of CPU {cpu}")
                        })
                    }
                    // There may be thousands: they are added up below.
                    Lost::Switches { .. } => return None,
                };
                Some(LostData { ts: loss.ts, text })
            })
            .collect();
        let missing = self.trace().missing_switches().iter();
        lost.extend(missing.filter_map(|missing| {
            let all = self.unknown(missing.ucpu);
            let first = all.partition_point(|unknown| unknown.end < interval.start);
            let within = all[first..]
                .iter()
                .take_while(|unknown| unknown.start <= interval.end);
            let (mut count, mut ns, mut ts) = (0_u64, 0_i64, None);
            for unknown in within {
                let (start, end) = (unknown.start.max(interval.start), unknown.end);
                ts.get_or_insert(start);
                count += 1;
                ns = ns.saturating_add(end.min(interval.end).saturating_sub(start).max(0));
            }
            let cpu = cpus.cpu().get(missing.ucpu).unwrap_or(missing.ucpu);
            let text = format!(
                "{} of threads on CPU {cpu} ({} of {} in the trace), which the kernel left out: \
                 what ran there is unknown for {}",
                counted(count, "switch"),
                grouped(missing.missing),
                format_args!("{} {}", grouped(missing.of), plural(missing.of, "switch")),
                duration(ns.unsigned_abs()),
            );
            Some(LostData { ts: ts?, text })
        }));
        lost.sort_by_key(|lost| lost.ts);
        lost
    }
}
