//! The statistics of the service: `TraceStats`. The last one applies.

use ferretto_proto::fields::trace_stats::{
    self as field, buffer_stats, filter_stats, writer_stats,
};
use ferretto_wire::Fields;
use rustc_hash::FxHashMap;

use super::context::Context;
use super::sequence::Sequences;
use crate::stats::Stat;

/// Reads a `TraceStats`.
pub(super) fn read(cx: &mut Context, sequences: &Sequences, bytes: &[u8]) {
    let mut buffers = 0;
    let mut losses = FxHashMap::default();
    for field in Fields::new(bytes).map_while(Result::ok) {
        let number = field.as_u64().unwrap_or(0);
        let stats = &mut cx.store.stats;
        let stat = match field.number {
            field::PRODUCERS_CONNECTED => Stat::traced_producers_connected,
            field::PRODUCERS_SEEN => Stat::traced_producers_seen,
            field::DATA_SOURCES_REGISTERED => Stat::traced_data_sources_registered,
            field::DATA_SOURCES_SEEN => Stat::traced_data_sources_seen,
            field::TRACING_SESSIONS => Stat::traced_tracing_sessions,
            field::TOTAL_BUFFERS => Stat::traced_total_buffers,
            field::CHUNKS_DISCARDED => Stat::traced_chunks_discarded,
            field::PATCHES_DISCARDED => Stat::traced_patches_discarded,
            field::FLUSHES_REQUESTED => Stat::traced_flushes_requested,
            field::FLUSHES_SUCCEEDED => Stat::traced_flushes_succeeded,
            field::FLUSHES_FAILED => Stat::traced_flushes_failed,
            field::FINAL_FLUSH_OUTCOME => {
                match number {
                    1 => stats.set(Stat::traced_final_flush_succeeded, 1),
                    2 => stats.set(Stat::traced_final_flush_failed, 1),
                    _ => {}
                }
                continue;
            }
            field::FILTER_STATS => {
                filter(cx, field.as_bytes().unwrap_or_default());
                continue;
            }
            field::BUFFER_STATS => {
                buffer(cx, buffers, field.as_bytes().unwrap_or_default());
                buffers += 1;
                continue;
            }
            field::WRITER_STATS => {
                writer(
                    cx,
                    sequences,
                    field.as_bytes().unwrap_or_default(),
                    &mut losses,
                );
                continue;
            }
            _ => continue,
        };
        stats.set(stat, number as i64);
    }
    for (buffer, loss) in losses {
        loss.set(cx, buffer);
    }
}

fn filter(cx: &mut Context, bytes: &[u8]) {
    let mut buffers = 0;
    for field in Fields::new(bytes).map_while(Result::ok) {
        let stat = match field.number {
            filter_stats::INPUT_PACKETS => Stat::filter_input_packets,
            filter_stats::INPUT_BYTES => Stat::filter_input_bytes,
            filter_stats::OUTPUT_BYTES => Stat::filter_output_bytes,
            filter_stats::ERRORS => Stat::filter_errors,
            filter_stats::TIME_TAKEN_NS => Stat::filter_time_taken_ns,
            filter_stats::BYTES_DISCARDED_PER_BUFFER => {
                for value in field.as_varints() {
                    let stat = Stat::traced_buf_bytes_filtered_out;
                    cx.store.stats.set_indexed(stat, buffers, value as i64);
                    buffers += 1;
                }
                continue;
            }
            _ => continue,
        };
        cx.store.stats.set(stat, field.as_u64().unwrap_or(0) as i64);
    }
}

/// The statistics of a buffer, and their fields.
const BUFFER: [(u32, Stat); 20] = [
    (buffer_stats::BUFFER_SIZE, Stat::traced_buf_buffer_size),
    (buffer_stats::BYTES_WRITTEN, Stat::traced_buf_bytes_written),
    (
        buffer_stats::BYTES_OVERWRITTEN,
        Stat::traced_buf_bytes_overwritten,
    ),
    (buffer_stats::BYTES_READ, Stat::traced_buf_bytes_read),
    (
        buffer_stats::PADDING_BYTES_WRITTEN,
        Stat::traced_buf_padding_bytes_written,
    ),
    (
        buffer_stats::PADDING_BYTES_CLEARED,
        Stat::traced_buf_padding_bytes_cleared,
    ),
    (
        buffer_stats::CHUNKS_WRITTEN,
        Stat::traced_buf_chunks_written,
    ),
    (
        buffer_stats::CHUNKS_REWRITTEN,
        Stat::traced_buf_chunks_rewritten,
    ),
    (
        buffer_stats::CHUNKS_OVERWRITTEN,
        Stat::traced_buf_chunks_overwritten,
    ),
    (
        buffer_stats::CHUNKS_DISCARDED,
        Stat::traced_buf_chunks_discarded,
    ),
    (buffer_stats::CHUNKS_READ, Stat::traced_buf_chunks_read),
    (
        buffer_stats::CHUNKS_RELOCATED,
        Stat::traced_buf_chunks_relocated,
    ),
    (
        buffer_stats::CHUNKS_COMMITTED_OUT_OF_ORDER,
        Stat::traced_buf_chunks_committed_out_of_order,
    ),
    (
        buffer_stats::WRITE_WRAP_COUNT,
        Stat::traced_buf_write_wrap_count,
    ),
    (
        buffer_stats::PATCHES_SUCCEEDED,
        Stat::traced_buf_patches_succeeded,
    ),
    (
        buffer_stats::PATCHES_FAILED,
        Stat::traced_buf_patches_failed,
    ),
    (
        buffer_stats::READAHEADS_SUCCEEDED,
        Stat::traced_buf_readaheads_succeeded,
    ),
    (
        buffer_stats::READAHEADS_FAILED,
        Stat::traced_buf_readaheads_failed,
    ),
    (
        buffer_stats::ABI_VIOLATIONS,
        Stat::traced_buf_abi_violations,
    ),
    (
        buffer_stats::TRACE_WRITER_PACKET_LOSS,
        Stat::traced_buf_trace_writer_packet_loss,
    ),
];

fn buffer(cx: &mut Context, buffer: i64, bytes: &[u8]) {
    let mut values = [0; BUFFER.len()];
    for field in Fields::new(bytes).map_while(Result::ok) {
        if let Some(index) = BUFFER
            .iter()
            .position(|(number, _)| *number == field.number)
        {
            values[index] = field.as_u64().unwrap_or(0) as i64;
        }
    }
    for ((_, stat), value) in BUFFER.iter().zip(values) {
        cx.store.stats.set_indexed(*stat, buffer, value);
    }
}

/// The losses of the sequences of a buffer.
#[derive(Debug, Default)]
struct Losses {
    losses: u64,
    /// The number of sequences without any readable packet that needs incremental state.
    unreadable: u64,
    reasons: [u64; 16],
}

/// The reasons of losses, by bit.
const REASONS: [(usize, Stat); 8] = [
    (1, Stat::traced_buf_data_loss_read_gap),
    (2, Stat::traced_buf_data_loss_chunk_corrupted),
    (3, Stat::traced_buf_data_loss_orphan_continuation),
    (4, Stat::traced_buf_data_loss_reassembly_gap),
    (5, Stat::traced_buf_data_loss_reassembly_broken_chain),
    (6, Stat::traced_buf_data_loss_overwrite),
    (7, Stat::traced_buf_data_loss_writer_abort),
    (8, Stat::traced_buf_data_loss_smb_full),
];

impl Losses {
    fn set(&self, cx: &mut Context, buffer: i64) {
        let mut set = |stat, value: u64| {
            cx.store.stats.set_indexed(stat, buffer, value as i64);
        };
        set(Stat::traced_buf_sequence_packet_loss, self.losses);
        set(
            Stat::traced_buf_incremental_sequences_dropped,
            self.unreadable,
        );
        for (bit, stat) in REASONS {
            set(stat, self.reasons[bit]);
        }
    }
}

/// Reads the statistics of a writer, which contain the buffer of its sequence.
fn writer(cx: &Context, sequences: &Sequences, bytes: &[u8], losses: &mut FxHashMap<i64, Losses>) {
    /// The maximum number of buffers. Services have fewer.
    const MAX_BUFFERS: usize = 1 << 10;
    let number = |field| {
        Fields::find(field, bytes)
            .and_then(|field| field.as_u64())
            .unwrap_or(0)
    };
    let buffer = number(writer_stats::BUFFER) as i32;
    let Some(sequence) = sequences.find(cx.store.machine, number(writer_stats::SEQUENCE_ID) as u32)
    else {
        return;
    };
    if losses.len() >= MAX_BUFFERS && !losses.contains_key(&buffer.into()) {
        return;
    }
    let loss = losses.entry(buffer.into()).or_default();
    loss.losses += sequence.losses;
    loss.unreadable +=
        u64::from(sequence.skipped > 0 && sequence.skipped == sequence.needing_state);
    for (sum, count) in loss.reasons.iter_mut().zip(&sequence.loss_reasons) {
        *sum += count;
    }
}
