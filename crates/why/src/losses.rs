//! Lost data.

use std::ops::Range;

use ferretto_tables::Lost;

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
            .map(|loss| LostData {
                ts: loss.ts,
                text: match loss.lost {
                    Lost::Packets { sequence } => format!("packets of sequence {sequence}"),
                    Lost::KernelEvents { ucpu } => {
                        let cpu = ucpu.and_then(|ucpu| cpus.cpu().get(ucpu));
                        cpu.map_or("kernel events".to_owned(), |cpu| {
                            format!("kernel events of CPU {cpu}")
                        })
                    }
                },
            })
            .collect();
        lost.sort_by_key(|lost| lost.ts);
        lost
    }
}
