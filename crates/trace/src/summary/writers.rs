//! Writers: their identity, and the reported gaps.

use std::collections::BTreeMap;

use ferretto_format::Loss as Reasons;
use ferretto_format::sequence::PacketHeader;
use ferretto_text::amount::counted;

use super::config::Config;
use super::loss::{Cause, Loss};
use super::stats::Stats;
use crate::threads::Threads;

/// The reason that older services report for full shared memory.
const SMB_FULL: Reasons = Reasons::from_bits(256);

/// The reasons in the first packet of a writer whose program was recorded late.
const LATE_START: Reasons = Reasons::from_bits(129);

/// One trace writer: a packet sequence.
#[derive(Debug, Default)]
pub(super) struct Writer {
    packets: u64,
    machine: u32,
    pid: Option<i32>,
    drops: u64,
    reasons: Reasons,
    /// Set if its program was recorded late.
    is_late: bool,
    source: Option<&'static str>,
}

impl Writer {
    /// Records a packet, and its data source if known.
    pub(super) fn note(&mut self, packet: &PacketHeader<'_>, source: Option<&'static str>) {
        self.packets += 1;
        self.machine = packet.machine;
        self.pid = packet.pid.or(self.pid);
        self.source = self.source.or(source);
        // On the first packet, this reason alone means that earlier losses are unknown.
        let is_known = packet.loss != Reasons::PRESENT || self.packets > 1;
        if !packet.loss.is_none() && is_known {
            self.drops += 1;
            // A writer cannot have abandoned a packet before its first one: its library reports
            // that the program wrote before it was connected.
            if packet.is_first && packet.loss == LATE_START {
                self.is_late = true;
            } else {
                self.reasons |= packet.loss;
            }
        }
    }

    /// Returns the machine of the writer.
    pub(super) fn machine(&self) -> u32 {
        self.machine
    }

    fn producer(&self, threads: &Threads) -> String {
        let source = self
            .source
            .map(|source| format!(" [{source}]"))
            .unwrap_or_default();
        match self.pid {
            Some(pid) => {
                let name = threads.process_name(self.machine, pid).unwrap_or("process");
                let short: String = name.chars().take(40).collect();
                format!("{short} (pid {pid}){source}")
            }
            None => format!("a producer{source}"),
        }
    }
}

/// Returns the gaps by producer and cause, from the writers by sequence id. Gaps that the buffer's
/// statistics already contain are not reported again. A gap without cause bits counts only if the
/// statistics contain a loss or are absent, because older services also flag sequences without
/// losses.
pub(super) fn losses<'a>(
    writers: impl Iterator<Item = (u32, &'a Writer)>,
    stats: Option<&Stats>,
    config: &Config,
    threads: &Threads,
) -> Vec<Loss> {
    let mut grouped: BTreeMap<(Cause, String), (u64, Option<u32>)> = BTreeMap::new();
    let mut writers: Vec<_> = writers.filter(|(_, writer)| writer.drops > 0).collect();
    writers.sort_unstable_by_key(|(id, _)| *id);
    for (id, writer) in writers {
        let cause = if writer.is_late && writer.reasons.is_none() {
            Some(Cause::LateStart)
        } else {
            cause(writer.reasons, stats)
        };
        let Some(cause) = cause else {
            continue;
        };
        let entry = grouped
            .entry((cause, writer.producer(threads)))
            .or_default();
        entry.0 = entry.0.saturating_add(writer.drops);
        let writers = stats.map(|stats| &stats.writers);
        entry.1 = writers
            .and_then(|w| w.iter().find(|w| w.0 == id))
            .map(|w| w.1);
    }
    let named = grouped
        .keys()
        .any(|(cause, _)| matches!(cause, Cause::SharedMemory | Cause::LateStart));
    let mut losses: Vec<Loss> = grouped
        .into_iter()
        .map(|((cause, producer), (gaps, buffer))| {
            let source = match buffer {
                Some(buffer) => format!("{producer}, {}", config.buffer_name(buffer as usize)),
                None => producer,
            };
            let amount = counted(gaps, "gap");
            Loss {
                cause,
                source,
                amount,
                advice: advice(cause).to_owned(),
            }
        })
        .collect();
    if !named {
        losses.extend(
            stats
                .map(|stats| unnamed(stats, config))
                .unwrap_or_default(),
        );
    }
    losses
}

/// Returns the losses of writers that ran out of shared memory and have no packets in the trace.
fn unnamed(stats: &Stats, config: &Config) -> Vec<Loss> {
    let lossy = stats
        .buffers
        .iter()
        .enumerate()
        .filter(|(_, buffer)| buffer.writer_loss > 0);
    lossy
        .map(|(index, buffer)| Loss {
            cause: Cause::SharedMemory,
            source: config.buffer_name(index),
            amount: counted(buffer.writer_loss, "gap"),
            advice: advice(Cause::SharedMemory).to_owned(),
        })
        .collect()
}

fn cause(reasons: Reasons, stats: Option<&Stats>) -> Option<Cause> {
    let has = |reason| reasons.contains(reason);
    if has(SMB_FULL) || has(Reasons::WRITER_ABORT) {
        Some(Cause::SharedMemory)
    } else if has(Reasons::CHUNK_CORRUPTED) {
        Some(Cause::Producer)
    } else if has(Reasons::OVERWRITE) {
        // The buffer's own counters report this loss with its size.
        stats.is_none().then_some(Cause::Overwritten)
    } else if has(Reasons::ORPHAN_CONTINUATION)
        || has(Reasons::REASSEMBLY_GAP)
        || has(Reasons::REASSEMBLY_BROKEN_CHAIN)
    {
        Some(Cause::Incomplete)
    } else {
        stats
            .is_none_or(Stats::explains_gaps)
            .then_some(Cause::Unknown)
    }
}

fn advice(cause: Cause) -> &'static str {
    match cause {
        Cause::SharedMemory => {
            "raise shm_size_kb of this producer in producers of the config, or let it write less at a time"
        }
        Cause::LateStart => {
            "the program wrote before the service replied; let it wait longer when it starts (Options::wait)"
        }
        Cause::Overwritten => "raise size_kb of the buffer, or set write_into_file: true",
        Cause::Producer => "update the producer",
        Cause::Incomplete => {
            "a producer ended in the middle of a packet, or its chunks were overwritten"
        }
        _ => "see the other lines; a gap like this usually follows from one of them",
    }
}
