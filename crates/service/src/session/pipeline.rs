//! The path of packets from the buffers to their reader, through filter and compression.

use crate::buffer::Packet;
use crate::compress::{Compressor, packets};
use crate::filter::{FilterCounters, TraceFilter};
use crate::limits::MAX_SLICE;
use crate::matching::Weight;
use crate::sink::PacketSink;

/// A session's filter, with counters.
#[derive(Debug)]
pub(super) struct SessionFilter {
    filter: TraceFilter,
    counters: FilterCounters,
}

impl SessionFilter {
    pub(super) fn new(filter: TraceFilter) -> Self {
        let counters = FilterCounters::default();
        Self { filter, counters }
    }

    /// Returns the same filter for another trace.
    pub(super) fn duplicate(&self) -> Self {
        Self::new(self.filter.clone())
    }

    pub(super) fn counters(&self) -> &FilterCounters {
        &self.counters
    }

    /// Counts a packet of this size that is not filtered.
    pub(super) fn count_unfiltered(&mut self, size: usize) {
        self.counters.count(size, Ok(size), None);
    }

    pub(super) fn weight(&self) -> Weight {
        self.filter.weight()
    }
}

/// The path of one batch, through the filter and the compressor of the session, which are returned
/// at the end.
pub(super) struct Pipeline<'a, S> {
    sink: &'a mut S,
    filter: Option<SessionFilter>,
    compressor: Option<Compressor>,
    stopwatch: Option<fn() -> u64>,
    /// The size of the packets so far, before filter and compression.
    pub(super) bytes: usize,
}

impl<'a, S: PacketSink> Pipeline<'a, S> {
    /// Creates a pipeline. The stopwatch measures the time of the filter.
    pub(super) fn new(
        filter: Option<SessionFilter>,
        stopwatch: Option<fn() -> u64>,
        compressor: Option<Compressor>,
        sink: &'a mut S,
    ) -> Self {
        Self {
            sink,
            filter,
            compressor,
            stopwatch,
            bytes: 0,
        }
    }

    /// Adds a packet of the service itself.
    pub(super) fn own(&mut self, packet: &[u8]) {
        self.bytes += packet.len();
        self.pass(packet.chunks(MAX_SLICE), None);
    }

    /// Adds a packet of a producer from the buffer of this index, followed by the trusted fields.
    pub(super) fn of_producer(&mut self, buffer: usize, packet: &Packet<'_>, trusted: &[u8]) {
        let pieces = packet.fragments().chain(std::iter::once(trusted));
        self.pass(pieces, Some(buffer));
    }

    /// Returns true if further packets would be dropped.
    pub(super) fn is_full(&self) -> bool {
        self.sink.is_full()
    }

    fn pass<'p>(&mut self, pieces: impl Iterator<Item = &'p [u8]> + Clone, buffer: Option<usize>) {
        let Some(SessionFilter { filter, counters }) = &mut self.filter else {
            return put(self.sink, &mut self.compressor, pieces);
        };
        let input = pieces.clone().map(<[u8]>::len).sum();
        let begin = self.stopwatch.map(|now| now());
        let output = filter.filter(pieces);
        if let (Some(begin), Some(now)) = (begin, self.stopwatch) {
            counters.time_ns += now().saturating_sub(begin);
        }
        counters.count(input, output.map(<[u8]>::len), buffer);
        let passed = output.unwrap_or_default().chunks(MAX_SLICE);
        put(self.sink, &mut self.compressor, passed);
    }

    /// Returns the filter: later packets are not filtered.
    pub(super) fn end_filter(&mut self) -> Option<SessionFilter> {
        self.filter.take()
    }

    /// Passes the compressed batch on, and returns the compressor.
    pub(super) fn end(mut self) -> Option<Compressor> {
        let compressor = self.compressor.as_mut()?;
        match compressor.finish() {
            Some(batch) => self.sink.packet(batch.pieces(MAX_SLICE)),
            None => {
                let batch = compressor.take_uncompressed();
                for packet in packets(&batch) {
                    self.sink.packet(packet.chunks(MAX_SLICE));
                }
            }
        }
        self.compressor
    }
}

fn put<'p, S: PacketSink>(
    sink: &mut S,
    compressor: &mut Option<Compressor>,
    pieces: impl Iterator<Item = &'p [u8]> + Clone,
) {
    match compressor {
        Some(compressor) => compressor.add(pieces),
        None => sink.packet(pieces),
    }
}
