//! Writers: who they are, and the gaps they or the service reported.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::config::Config;
use super::loss::{Cause, Loss, plural};
use super::stats::Stats;
use super::threads::Threads;
use crate::limits::{Budget, entry_bytes};

/// Sequences beyond this number are not told apart, so that memory stays bounded on any input.
const MAX_SEQUENCES: usize = 1 << 18;

/// Bits of `TracePacket.previous_packet_dropped`.
const OVERWRITE: u32 = 64;
const SMB_FULL: u32 = 256;
const WRITER_ABORT: u32 = 128;
const CORRUPTED: u32 = 4;
/// Continuation without a beginning, gap or broken chain inside a packet.
const INCOMPLETE: u32 = 8 | 16 | 32;

/// One packet sequence, that is one trace writer.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    pub(super) packets: u64,
    /// `TracePacketDefaults.timestamp_clock_id`.
    pub(super) default_clock: Option<u32>,
    machine: u32,
    pid: Option<i32>,
    drops: u64,
    causes: u32,
    source: Option<&'static str>,
}

/// Sequences by id.
#[derive(Debug)]
pub(super) struct Sequences {
    sequences: BTreeMap<u32, Sequence>,
    budget: Budget,
}

/// What the envelope of a packet says about its writer.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Writer {
    pub(super) sequence: u32,
    pub(super) machine: u32,
    pub(super) pid: Option<i32>,
    pub(super) dropped: u32,
    pub(super) source: Option<&'static str>,
}

impl Sequences {
    /// None yet.
    pub(super) fn new(budget: &Budget) -> Self {
        Self {
            sequences: BTreeMap::new(),
            budget: budget.clone(),
        }
    }

    /// Notes one packet of a writer. `None` if there are too many writers.
    pub(super) fn packet(&mut self, writer: Writer) -> Option<&mut Sequence> {
        let is_full = self.sequences.len() >= MAX_SEQUENCES;
        let sequence = match self.sequences.entry(writer.sequence) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(_) if is_full || !self.budget.take(entry_bytes::<Sequence>()) => {
                return None;
            }
            Entry::Vacant(new) => new.insert(Sequence::default()),
        };
        sequence.packets += 1;
        sequence.machine = writer.machine;
        sequence.pid = writer.pid.or(sequence.pid);
        sequence.source = sequence.source.or(writer.source);
        // A bare 1 on the first packet only says that nothing is known of what was before.
        if writer.dropped > 1 || (writer.dropped == 1 && sequence.packets > 1) {
            sequence.drops += 1;
            sequence.causes |= writer.dropped;
        }
        Some(sequence)
    }

    /// Gaps by producer and cause. A gap in the buffer that the statistics already account for is not told twice;
    /// one without cause bits counts only if the statistics saw a loss or are absent, because older services flag
    /// sequences that lost nothing.
    pub(super) fn losses(
        &self,
        stats: Option<&Stats>,
        config: &Config,
        threads: &Threads,
    ) -> Vec<Loss> {
        let mut grouped: BTreeMap<(Cause, String), (u64, Option<u32>)> = BTreeMap::new();
        for (&id, sequence) in self.sequences.iter().filter(|(_, s)| s.drops > 0) {
            let Some(cause) = cause(sequence.causes, stats) else {
                continue;
            };
            let entry = grouped
                .entry((cause, sequence.producer(threads)))
                .or_default();
            entry.0 = entry.0.saturating_add(sequence.drops);
            let writers = stats.map(|stats| &stats.writers);
            entry.1 = writers
                .and_then(|w| w.iter().find(|w| w.0 == id))
                .map(|w| w.1);
        }
        let named = grouped
            .keys()
            .any(|(cause, _)| *cause == Cause::SharedMemory);
        let mut losses: Vec<Loss> = grouped
            .into_iter()
            .map(|((cause, producer), (gaps, buffer))| {
                let place = match buffer {
                    Some(buffer) => format!("{producer}, {}", config.buffer_name(buffer as usize)),
                    None => producer,
                };
                let amount = plural(gaps, "gap");
                Loss {
                    cause,
                    place,
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
}

/// Writers that ran out of memory and whose packets are not in the trace.
fn unnamed(stats: &Stats, config: &Config) -> Vec<Loss> {
    let lossy = stats
        .buffers
        .iter()
        .enumerate()
        .filter(|(_, buffer)| buffer.writer_loss > 0);
    lossy
        .map(|(index, buffer)| Loss {
            cause: Cause::SharedMemory,
            place: config.buffer_name(index),
            amount: plural(buffer.writer_loss, "gap"),
            advice: advice(Cause::SharedMemory).to_owned(),
        })
        .collect()
}

fn cause(bits: u32, stats: Option<&Stats>) -> Option<Cause> {
    if bits & (SMB_FULL | WRITER_ABORT) != 0 {
        Some(Cause::SharedMemory)
    } else if bits & CORRUPTED != 0 {
        Some(Cause::Producer)
    } else if bits & OVERWRITE != 0 {
        // Told by the buffer's own counters, with bytes.
        stats.is_none().then_some(Cause::Overwritten)
    } else if bits & INCOMPLETE != 0 {
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
            "raise shm_size_kb of this producer in producers of the config, or have it write less at once"
        }
        Cause::Overwritten => "raise size_kb of the buffer, or set write_into_file: true",
        Cause::Producer => "the producer is at fault; update it",
        Cause::Incomplete => {
            "a producer ended in the middle of a packet, or its chunks were overwritten"
        }
        _ => "see the other lines; a gap like this usually follows from one of them",
    }
}

impl Sequence {
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
