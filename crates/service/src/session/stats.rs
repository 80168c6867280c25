//! TraceStats: counts of recorded and lost data by buffer and writer.

use ferretto_ipc::port::state::BufferUse;
use ferretto_proto::trace_stats::{BufferStats, FilterStats, WriterStats};
use ferretto_proto::{Message, TraceStats};

use super::Session;
use crate::buffer::{self, HISTOGRAM_THRESHOLDS};
use crate::context::Context;
use crate::filter::FilterCounters;
use crate::limits::REPLY_BYTES;
use crate::pool::BufferPool;

impl Session {
    /// Returns the session's current statistics.
    pub(super) fn stats(&mut self, cx: &Context) -> TraceStats {
        let flushes = self.flushes.counts();
        let discarded = cx.producers.discarded();
        let mut stats = TraceStats {
            producers_connected: Some(cx.producers.len() as u32),
            producers_seen: Some(cx.producers.last_id().into()),
            data_sources_registered: Some(cx.registry.len() as u32),
            data_sources_seen: Some(cx.ids.instances_so_far()),
            tracing_sessions: Some(cx.live_sessions),
            total_buffers: Some(cx.buffers.len() as u32),
            chunks_discarded: Some(discarded.chunks),
            patches_discarded: Some(discarded.patches),
            invalid_packets: Some(self.invalid_packets),
            flushes_requested: Some(flushes.requested),
            flushes_succeeded: Some(flushes.succeeded),
            flushes_failed: Some(flushes.failed),
            final_flush_outcome: Some(flushes.final_outcome.unwrap_or_default()),
            filter_stats: self
                .filter
                .as_ref()
                .map(|filter| filter_stats(filter.counters()))
                .into(),
            ..Default::default()
        };
        let builtin = &self.config.builtin_data_sources;
        let with_writers = !builtin.disable_chunk_usage_histograms.unwrap_or(false);
        for (index, buffer_id) in self.buffers.iter().enumerate() {
            let Some(buffer) = cx.buffers.get(*buffer_id) else {
                continue;
            };
            stats.buffer_stats.push(buffer_stats(&buffer.stats()));
            if !with_writers {
                continue;
            }
            let mut writers: Vec<_> = buffer.writer_stats().collect();
            writers.sort_unstable_by_key(|writer| (writer.producer, writer.writer));
            for writer in writers {
                let sender = self.senders.get(&writer.producer).copied();
                let sender = sender.unwrap_or_default();
                let sequence = self.sequences.id(sender, writer.producer, writer.writer);
                stats
                    .writer_stats
                    .push(writer_stats(writer, sequence, index));
            }
        }
        self.gone.count(&mut stats);
        if !stats.writer_stats.is_empty() {
            stats.chunk_payload_histogram_def = HISTOGRAM_THRESHOLDS
                .iter()
                .map(|bound| *bound as i64)
                .collect();
        }
        stats
    }

    /// Returns the usage and losses of the session's buffers.
    pub(crate) fn buffer_use(&self, buffers: &BufferPool) -> Vec<BufferUse> {
        let buffers = self.buffers.iter().filter_map(|id| buffers.get(*id));
        let buffers = buffers.map(|buffer| {
            let stats = buffer.stats();
            BufferUse {
                size: stats.buffer_size,
                used: stats.bytes_written.min(stats.buffer_size),
                overwritten: stats.bytes_overwritten,
                discarded: stats.chunks_discarded,
            }
        });
        buffers.collect()
    }

    /// Returns the statistics for a reply. To fit a frame, histograms are left out from the end.
    pub(crate) fn stats_for_reply(&mut self, cx: &Context) -> TraceStats {
        let mut stats = self.stats(cx);
        while stats.encoded_len() as usize > REPLY_BYTES && !stats.writer_stats.is_empty() {
            let keep = stats.writer_stats.len() * 3 / 4;
            stats.writer_stats.truncate(keep);
        }
        stats
    }
}

fn filter_stats(counters: &FilterCounters) -> FilterStats {
    FilterStats {
        input_packets: Some(counters.input_packets),
        input_bytes: Some(counters.input_bytes),
        output_bytes: Some(counters.output_bytes),
        errors: Some(counters.errors),
        time_taken_ns: Some(counters.time_ns),
        bytes_discarded_per_buffer: counters.discarded.clone(),
        ..Default::default()
    }
}

fn buffer_stats(stats: &buffer::BufferStats) -> BufferStats {
    BufferStats {
        buffer_size: Some(stats.buffer_size),
        bytes_written: Some(stats.bytes_written),
        bytes_overwritten: Some(stats.bytes_overwritten),
        bytes_read: Some(stats.bytes_read),
        padding_bytes_written: Some(stats.padding_bytes_written),
        padding_bytes_cleared: Some(stats.padding_bytes_cleared),
        chunks_written: Some(stats.chunks_written),
        chunks_rewritten: Some(stats.chunks_rewritten),
        chunks_relocated: Some(stats.chunks_relocated),
        chunks_overwritten: Some(stats.chunks_overwritten),
        chunks_discarded: Some(stats.chunks_discarded),
        chunks_read: Some(stats.chunks_read),
        chunks_committed_out_of_order: Some(stats.chunks_committed_out_of_order),
        write_wrap_count: Some(stats.write_wrap_count),
        patches_succeeded: Some(stats.patches_succeeded),
        patches_failed: Some(stats.patches_failed),
        readaheads_succeeded: Some(stats.readaheads_succeeded),
        readaheads_failed: Some(stats.readaheads_failed),
        abi_violations: Some(stats.abi_violations),
        trace_writer_packet_loss: Some(stats.trace_writer_packet_loss),
        ..Default::default()
    }
}

fn writer_stats(writer: &buffer::WriterStats, sequence: u32, buffer: usize) -> WriterStats {
    WriterStats {
        sequence_id: Some(sequence.into()),
        buffer: Some(buffer as u32),
        chunk_payload_histogram_counts: writer.counts.to_vec(),
        chunk_payload_histogram_sum: writer.sums.iter().map(|sum| *sum as i64).collect(),
        ..Default::default()
    }
}
