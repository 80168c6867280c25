//! What packets pass on their way from the buffers to their reader: the filter, then compression.

use super::Session;
use super::read::PacketSink;
use crate::buffer::Packet;
use crate::compress::{Compressor, packets};
use crate::filter::{FilterCounters, TraceFilter};
use crate::limits::MAX_SLICE;
use crate::matching::Weight;

/// A session's filter and what it did.
#[derive(Debug)]
pub(crate) struct SessionFilter {
    filter: TraceFilter,
    pub(crate) counters: FilterCounters,
}

impl SessionFilter {
    pub(crate) fn new(filter: TraceFilter) -> Self {
        let counters = FilterCounters::default();
        Self { filter, counters }
    }

    /// The same for another trace.
    pub(crate) fn duplicate(&self) -> Self {
        Self::new(self.filter.clone())
    }

    pub(crate) fn weight(&self) -> Weight {
        self.filter.weight()
    }
}

/// The way of one batch. It borrows what it needs from the session, and is to give it back.
pub(crate) struct Pipeline<'a, S> {
    sink: &'a mut S,
    filter: Option<SessionFilter>,
    compressor: Option<Compressor>,
    stopwatch: Option<fn() -> u64>,
    /// Size of the packets so far, before filter and compression.
    pub(crate) bytes: usize,
}

impl<'a, S: PacketSink> Pipeline<'a, S> {
    pub(crate) fn begin(
        session: &mut Session,
        stopwatch: Option<fn() -> u64>,
        sink: &'a mut S,
    ) -> Self {
        Self {
            sink,
            filter: session.filter.take(),
            compressor: session.compressor.take(),
            stopwatch,
            bytes: 0,
        }
    }

    /// Takes a packet of the service itself.
    pub(crate) fn own(&mut self, packet: &[u8]) {
        self.bytes += packet.len();
        self.pass(packet.chunks(MAX_SLICE), None);
    }

    /// Takes a packet of a producer from the buffer of this index, and the fields to go behind it.
    pub(crate) fn of_producer(&mut self, buffer: usize, packet: &Packet<'_>, trusted: &[u8]) {
        let pieces = packet.fragments().chain(std::iter::once(trusted));
        self.pass(pieces, Some(buffer));
    }

    /// Whether anything more would be thrown away.
    pub(crate) fn is_full(&self) -> bool {
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

    /// Gives the filter back: what follows is not filtered.
    pub(crate) fn end_filter(&mut self, session: &mut Session) {
        session.filter = self.filter.take();
    }

    /// Hands over the compressed batch, and gives the compressor back.
    pub(crate) fn end(mut self, session: &mut Session) {
        let Some(compressor) = &mut self.compressor else {
            return;
        };
        match compressor.finish() {
            Some(batch) => self.sink.packet(batch.pieces(MAX_SLICE)),
            None => {
                let batch = compressor.take_uncompressed();
                for packet in packets(&batch) {
                    self.sink.packet(packet.chunks(MAX_SLICE));
                }
            }
        }
        session.compressor = self.compressor;
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
