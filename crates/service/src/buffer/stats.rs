//! Counters, and how full chunks are.

use rustc_hash::FxHashMap;

use super::{ProducerId, WriterId};

/// Counters of a buffer, named and meant as in upstream's `TraceStats.BufferStats`.
///
/// Bytes are those of records: a 16-byte header and the payload rounded up to 16.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BufferStats {
    /// Capacity in bytes.
    pub buffer_size: u64,
    /// Bytes of the chunks stored, those written in place again not included.
    pub bytes_written: u64,
    /// Chunks stored.
    pub chunks_written: u64,
    /// Chunks committed again with more and written in place.
    pub chunks_rewritten: u64,
    /// Chunks committed again with more whose copy was already read, and stored anew.
    pub chunks_relocated: u64,
    /// Bytes of the chunks in `chunks_overwritten`.
    pub bytes_overwritten: u64,
    /// Chunks that were not completely read when they had to make room.
    pub chunks_overwritten: u64,
    /// Bytes of the chunks in `chunks_read`.
    pub bytes_read: u64,
    /// Chunks read to their end. A chunk that grew after that counts again.
    pub chunks_read: u64,
    /// Bytes of filler written because a new chunk ended inside an old one.
    pub padding_bytes_written: u64,
    /// Bytes of filler, and of chunks already read, that made room.
    pub padding_bytes_cleared: u64,
    /// Times writing went back to the start.
    pub write_wrap_count: u64,
    /// Chunks that came after chunks with later ids.
    pub chunks_committed_out_of_order: u64,
    /// Chunks refused: the buffer is full, or the chunk had already left it.
    pub chunks_discarded: u64,
    /// Four-byte patches applied.
    pub patches_succeeded: u64,
    /// Calls to patch that failed.
    pub patches_failed: u64,
    /// Packets put together from several chunks.
    pub readaheads_succeeded: u64,
    /// Attempts at that which were given up.
    pub readaheads_failed: u64,
    /// Commits that no correct producer makes.
    pub abi_violations: u64,
    /// Packets the writer gave up itself.
    pub trace_writer_packet_loss: u64,
}

/// Number of buckets of a [`WriterStats`]: one a threshold, and one for values above the last.
pub const HISTOGRAM_BUCKETS: usize = HISTOGRAM_THRESHOLDS.len() + 1;

/// Upper bounds of the buckets, in bytes, each included in its bucket.
pub const HISTOGRAM_THRESHOLDS: [u64; 10] = [8, 32, 128, 512, 1024, 2048, 4096, 8192, 12288, 16384];

/// More writers than this and the later ones have no histogram: each takes 200 bytes.
const MAX_HISTOGRAMS: usize = 65_536;

/// The fill levels of the chunks of one writer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterStats {
    /// Producer of the chunks.
    pub producer: ProducerId,
    /// Writer of the chunks.
    pub writer: WriterId,
    /// Chunks whose payload in use falls into each bucket.
    pub counts: [u64; HISTOGRAM_BUCKETS],
    /// Sum of these payloads, in bytes.
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

/// The histograms of all writers of a buffer, kept also for writers that are gone.
#[derive(Debug, Default, Clone)]
pub(super) struct Histograms {
    list: Vec<WriterStats>,
    by_writer: FxHashMap<(ProducerId, WriterId), u32>,
}

impl Histograms {
    /// Returns where the histogram of a writer is; `None` if there are too many.
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

    /// Bytes allocated, the hash table's overhead left out.
    pub(super) fn memory(&self) -> usize {
        self.list.capacity() * size_of::<WriterStats>()
            + self.by_writer.capacity() * size_of::<((ProducerId, WriterId), u32)>()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &WriterStats> {
        self.list.iter()
    }
}
