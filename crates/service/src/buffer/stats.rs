//! Counters, and the fill levels of chunks.

use rustc_hash::FxHashMap;

use super::{ProducerId, WriterId};

/// Counters of a buffer, with the names and meanings of upstream's `TraceStats.BufferStats`.
///
/// Bytes are those of records: a 16-byte header and the payload, rounded up to 16.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BufferStats {
    /// The capacity in bytes.
    pub buffer_size: u64,
    /// The bytes of stored chunks, without those written in place again.
    pub bytes_written: u64,
    /// The number of stored chunks.
    pub chunks_written: u64,
    /// Chunks committed again with more fragments, and written in place.
    pub chunks_rewritten: u64,
    /// Chunks committed again with more fragments after their copy was read, and stored anew.
    pub chunks_relocated: u64,
    /// The bytes of the chunks in `chunks_overwritten`.
    pub bytes_overwritten: u64,
    /// Chunks that were overwritten before they were completely read.
    pub chunks_overwritten: u64,
    /// The bytes of the chunks in `chunks_read`.
    pub bytes_read: u64,
    /// Chunks that were completely read. A chunk that grew after that counts again.
    pub chunks_read: u64,
    /// Bytes of padding written because a new chunk ended inside an old one.
    pub padding_bytes_written: u64,
    /// Bytes of padding, and of chunks already read, that were overwritten.
    pub padding_bytes_cleared: u64,
    /// The number of times that writing returned to the start.
    pub write_wrap_count: u64,
    /// Chunks that came after chunks with higher ids.
    pub chunks_committed_out_of_order: u64,
    /// Chunks refused because the buffer was full, or because they had already left it.
    pub chunks_discarded: u64,
    /// Applied patches of four bytes each.
    pub patches_succeeded: u64,
    /// Failed calls to patch.
    pub patches_failed: u64,
    /// Packets reassembled from several chunks.
    pub readaheads_succeeded: u64,
    /// Reassemblies that failed.
    pub readaheads_failed: u64,
    /// Commits that a correct producer does not make.
    pub abi_violations: u64,
    /// Packets that their writers aborted.
    pub trace_writer_packet_loss: u64,
}

/// The number of buckets of a [`WriterStats`]: one for each threshold, and one for larger values.
pub const HISTOGRAM_BUCKETS: usize = HISTOGRAM_THRESHOLDS.len() + 1;

/// The upper bounds of the buckets in bytes, inclusive.
pub(crate) const HISTOGRAM_THRESHOLDS: [u64; 10] =
    [8, 32, 128, 512, 1024, 2048, 4096, 8192, 12288, 16384];

/// The largest number of histograms, each of which takes 200 bytes. Further writers have none.
const MAX_HISTOGRAMS: usize = 65_536;

/// The fill levels of the chunks of one writer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterStats {
    /// The producer of the chunks.
    pub producer: ProducerId,
    /// The writer of the chunks.
    pub writer: WriterId,
    /// The number of chunks in each bucket by their used payload.
    pub counts: [u64; HISTOGRAM_BUCKETS],
    /// The sum of these payloads, in bytes.
    pub sums: [u64; HISTOGRAM_BUCKETS],
}

impl WriterStats {
    pub(super) fn add(&mut self, len: usize) {
        let len = len as u64;
        let bucket = HISTOGRAM_THRESHOLDS.partition_point(|threshold| *threshold < len);
        self.counts[bucket] += 1;
        self.sums[bucket] += len;
    }
}

/// The histograms of all writers of a buffer, including writers that are gone.
#[derive(Debug, Default, Clone)]
pub(super) struct Histograms {
    list: Vec<WriterStats>,
    by_writer: FxHashMap<(ProducerId, WriterId), u32>,
}

impl Histograms {
    /// Returns the index of a writer's histogram; `None` if there are too many.
    pub(super) fn index(&mut self, producer: ProducerId, writer: WriterId) -> Option<u32> {
        if let Some(index) = self.by_writer.get(&(producer, writer)) {
            return Some(*index);
        }
        if self.list.len() >= MAX_HISTOGRAMS {
            return None;
        }
        let index = self.list.len() as u32;
        self.list.push(WriterStats {
            producer,
            writer,
            counts: [0; HISTOGRAM_BUCKETS],
            sums: [0; HISTOGRAM_BUCKETS],
        });
        self.by_writer.insert((producer, writer), index);
        Some(index)
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut WriterStats> {
        self.list.get_mut(index as usize)
    }

    /// Returns the allocated memory in bytes, without the overhead of the hash table.
    pub(super) fn memory(&self) -> usize {
        self.list.capacity() * size_of::<WriterStats>()
            + self.by_writer.capacity() * size_of::<((ProducerId, WriterId), u32)>()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &WriterStats> {
        self.list.iter()
    }
}
