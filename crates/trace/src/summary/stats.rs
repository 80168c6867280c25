//! Losses in the service's statistics (`TraceStats`).

use ferretto_format::TURNED_AWAY;
use ferretto_proto::views::TraceStatsView;
use ferretto_proto::views::trace_stats::{
    BufferStatsView, FilterStatsView, WriterStatsView, final_flush_outcome,
};
use ferretto_text::amount::{counted, human_bytes};
use ferretto_wire::Fields;

use super::config::Config;
use super::loss::{Cause, Loss};

/// The maximum number of buffers and writers; the service has fewer.
const MAX_ENTRIES: usize = 1 << 16;

/// The part of a `TraceStats` that the summary needs. Counters only grow, so the last packet of a
/// session is used.
#[derive(Debug, Clone, Default)]
pub(super) struct Stats {
    pub(super) buffers: Vec<BufferStats>,
    /// The sequence and buffer of each writer.
    pub(super) writers: Vec<(u32, u32)>,
    chunks_discarded: u64,
    patches_discarded: u64,
    invalid_packets: u64,
    flushes_failed: u64,
    /// A value of `FinalFlushOutcome`.
    final_flush: i32,
    filter_errors: u64,
    /// The number of connections of programs that the service did not serve.
    turned_away: u64,
}

#[derive(Debug, Clone, Default)]
pub(super) struct BufferStats {
    size: u64,
    bytes_written: u64,
    bytes_overwritten: u64,
    chunks_overwritten: u64,
    chunks_discarded: u64,
    patches_failed: u64,
    abi_violations: u64,
    pub(super) writer_loss: u64,
}

impl Stats {
    pub(super) fn read(bytes: &[u8]) -> Self {
        let stats = TraceStatsView::read(bytes);
        let filter = FilterStatsView::read(stats.filter_stats.unwrap_or_default());
        let buffers = stats.buffer_stats.iter().take(MAX_ENTRIES);
        let writers = stats.writer_stats.iter().map(WriterStatsView::read);
        let writers =
            writers.filter_map(|writer| Some((writer.sequence_id? as u32, writer.buffer)));
        Self {
            buffers: buffers.map(BufferStats::read).collect(),
            writers: writers
                .take(MAX_ENTRIES)
                .map(|(sequence, buffer)| (sequence, buffer.unwrap_or(0)))
                .collect(),
            chunks_discarded: stats.chunks_discarded.unwrap_or(0),
            patches_discarded: stats.patches_discarded.unwrap_or(0),
            invalid_packets: stats.invalid_packets.unwrap_or(0),
            flushes_failed: stats.flushes_failed.unwrap_or(0),
            final_flush: stats
                .final_flush_outcome
                .unwrap_or(final_flush_outcome::FINAL_FLUSH_UNSPECIFIED),
            filter_errors: filter.errors.unwrap_or(0),
            turned_away: Fields::find(TURNED_AWAY, bytes)
                .and_then(|field| field.as_u64())
                .unwrap_or(0),
        }
    }

    /// Returns true if the outcome of the final flush is known.
    pub(super) fn has_final_flush(&self) -> bool {
        self.final_flush != final_flush_outcome::FINAL_FLUSH_UNSPECIFIED
    }

    /// Returns true if events may be missing, or late, because a data source did not answer.
    pub(super) fn has_flush_loss(&self) -> bool {
        self.final_flush == final_flush_outcome::FINAL_FLUSH_FAILED || self.flushes_failed > 0
    }

    /// Returns true if the service counted losses that cause gaps in sequences.
    pub(super) fn explains_gaps(&self) -> bool {
        self.chunks_discarded > 0
            || self.patches_discarded > 0
            || self.invalid_packets > 0
            || self.buffers.iter().any(BufferStats::has_loss)
    }

    /// Returns the losses of one recording. `slow` are the data sources that did not answer the
    /// last flush.
    pub(super) fn losses(&self, config: &Config, slow: &[String]) -> Vec<Loss> {
        let mut losses = Vec::new();
        for (index, buffer) in self.buffers.iter().enumerate() {
            buffer.losses(index, config, &mut losses);
        }
        let mut add = |cause, amount: String, source: &str, advice: &str| {
            let (source, advice) = (source.to_owned(), advice.to_owned());
            losses.push(Loss {
                cause,
                source,
                amount,
                advice,
            });
        };
        if self.chunks_discarded > 0 {
            let amount = format!("{} rejected", counted(self.chunks_discarded, "chunk"));
            let advice =
                "check target_buffer of the data sources; if it is right, update the producer";
            add(Cause::NoSuchBuffer, amount, "service", advice);
        }
        if self.patches_discarded > 0 {
            let amount = format!("{} rejected", counted(self.patches_discarded, "patch"));
            add(
                Cause::NoSuchBuffer,
                amount,
                "service",
                "update the producer that writes invalid data",
            );
        }
        if self.invalid_packets > 0 {
            let amount = format!(
                "{} rejected",
                counted(self.invalid_packets, "malformed packet")
            );
            add(
                Cause::Producer,
                amount,
                "service",
                "update the producer that writes invalid data",
            );
        }
        if self.filter_errors > 0 {
            let amount = counted(self.filter_errors, "packet");
            add(
                Cause::Producer,
                amount,
                "trace filter",
                "check trace_filter.bytecode",
            );
        }
        if self.turned_away > 0 {
            let times = counted(self.turned_away, "connection");
            let amount = format!("{times} failed; programs may be missing");
            let advice = "give the service more memory and descriptors (LimitNOFILE); its messages have the reason";
            add(Cause::NotConnected, amount, "service", advice);
        }
        if self.has_flush_loss() {
            losses.push(self.flush_loss(config, slow));
        }
        losses
    }

    fn flush_loss(&self, config: &Config, slow: &[String]) -> Loss {
        let source = if slow.is_empty() {
            "service".to_owned()
        } else {
            slow.join(", ")
        };
        let amount = if self.final_flush == final_flush_outcome::FINAL_FLUSH_FAILED {
            "the last events may be missing".to_owned()
        } else {
            format!(
                "{} unanswered; events may be late",
                counted(self.flushes_failed, "flush")
            )
        };
        let advice = match config.flush_timeout_ms {
            // The service waits less for a program that it does not know to answer.
            0 => "set flush_timeout_ms (now 5000, or 2000 for a program that has not answered yet)"
                .to_owned(),
            now => format!("raise flush_timeout_ms (now {now})"),
        };
        Loss {
            cause: Cause::Flush,
            source,
            amount,
            advice,
        }
    }
}

impl BufferStats {
    fn read(bytes: &[u8]) -> Self {
        let stats = BufferStatsView::read(bytes);
        Self {
            size: stats.buffer_size.unwrap_or(0),
            bytes_written: stats.bytes_written.unwrap_or(0),
            bytes_overwritten: stats.bytes_overwritten.unwrap_or(0),
            chunks_overwritten: stats.chunks_overwritten.unwrap_or(0),
            chunks_discarded: stats.chunks_discarded.unwrap_or(0),
            patches_failed: stats.patches_failed.unwrap_or(0),
            abi_violations: stats.abi_violations.unwrap_or(0),
            writer_loss: stats.trace_writer_packet_loss.unwrap_or(0),
        }
    }

    fn has_loss(&self) -> bool {
        self.chunks_overwritten > 0
            || self.chunks_discarded > 0
            || self.patches_failed > 0
            || self.abi_violations > 0
            || self.writer_loss > 0
    }

    fn losses(&self, index: usize, config: &Config, losses: &mut Vec<Loss>) {
        let source = config.buffer_name(index);
        let mut add = |cause, amount, advice| {
            losses.push(Loss {
                cause,
                source: source.clone(),
                amount,
                advice,
            });
        };
        let size_kb = match config.buffers.get(index) {
            Some(buffer) if buffer.size_kb > 0 => buffer.size_kb,
            _ => self.size / 1024,
        };
        if self.chunks_overwritten > 0 {
            let bytes = human_bytes(self.bytes_overwritten);
            let chunks = counted(self.chunks_overwritten, "chunk");
            let is_asked_for = config.buffers.get(index).is_some_and(|it| it.is_ring);
            let (cause, amount) = if is_asked_for && !config.write_into_file {
                (
                    Cause::Ring,
                    format!("{bytes} of older data made room for newer, as in a ring"),
                )
            } else {
                (
                    Cause::Overwritten,
                    format!("{bytes} in {chunks} overwritten before they were read"),
                )
            };
            add(cause, amount, self.ring_advice(index, size_kb, config));
        }
        if self.chunks_discarded > 0 {
            let amount = format!("{} discarded", counted(self.chunks_discarded, "chunk"));
            // A ring is never full.
            let is_ring = config.buffers.get(index).is_some_and(|b| !b.discard);
            if is_ring {
                let advice = "a producer committed them long after it had written them";
                add(Cause::Late, amount, advice.to_owned());
            } else {
                let advice = format!(
                    "raise buffers[{index}].size_kb (now {size_kb}), or set write_into_file: true"
                );
                add(Cause::BufferFull, amount, advice);
            }
        }
        if self.patches_failed > 0 {
            let amount = counted(self.patches_failed, "packet");
            let advice = if self.chunks_overwritten > 0 {
                "their chunks were overwritten, see above".to_owned()
            } else {
                "a producer ended in the middle of a packet, or its chunks were overwritten"
                    .to_owned()
            };
            add(Cause::Incomplete, amount, advice);
        }
        if self.abi_violations > 0 {
            let amount = format!(
                "{} in the shared memory",
                counted(self.abi_violations, "error")
            );
            add(
                Cause::Producer,
                amount,
                "update the producer that writes invalid data".to_owned(),
            );
        }
    }

    /// Returns the advice for a ring. The needed size is known for a ring that is only read at the
    /// end.
    fn ring_advice(&self, index: usize, size_kb: u64, config: &Config) -> String {
        if config.is_flag_ring {
            return "give --ring a larger SIZE to keep more".to_owned();
        }
        if config.write_into_file {
            let period = match config.file_write_period_ms {
                0 => 5000,
                period => period,
            };
            return format!(
                "lower file_write_period_ms (now {period}) or raise buffers[{index}].size_kb (now {size_kb})"
            );
        }
        let needed = (self.bytes_written.div_ceil(1024)).max(size_kb.saturating_add(1));
        format!(
            "raise buffers[{index}].size_kb (now {size_kb}) to {needed}, or set write_into_file: true"
        )
    }
}
