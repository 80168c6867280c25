//! The packets that topics tokenize, and the events that they make of them.

use ferretto_format::sequence::PacketHeader;
use ferretto_format::track_event::EventGlance;

use super::arena::{Arena, Span};
use super::context::EventState;
use super::event::Event;
use super::sorter::{Sorter, Stream};
use crate::store::Store;

/// A packet in the order of the file.
#[derive(Debug)]
pub(crate) struct Input<'a> {
    /// The field of `TracePacket` with the data of the topic.
    pub(crate) field: u32,
    /// The value of the field; empty if it is not a message.
    pub(crate) bytes: &'a [u8],
    /// The fields of a track event that are needed in the order of the file, if they were read.
    pub(crate) glance: Option<EventGlance>,
    pub(crate) header: &'a PacketHeader<'a>,
    /// The offset of the packet in the file.
    pub(crate) offset: u64,
    /// The time of the packet.
    pub(crate) ts: i64,
    /// The index of its sequence in [`Sequences::all`].
    pub(crate) sequence: u32,
    pub(crate) state: EventState<'a>,
    pub(super) arena: &'a Arena,
    pub(super) span: Span,
}

impl Input<'_> {
    /// Returns true if all packets since the last restart of incremental state were received.
    pub(crate) fn is_state_valid(&self) -> bool {
        self.state.sequences.all[self.sequence as usize].is_valid
    }

    /// Returns the span of a length-delimited field in the packet.
    #[inline]
    pub(crate) fn span(&self, part: &[u8]) -> Span {
        self.arena.part(self.span, part)
    }
}

/// Collects the events of one packet.
#[derive(Debug)]
pub(crate) struct Out<'a> {
    pub(super) sorter: &'a mut Sorter,
    /// The state of its sequence.
    pub(super) state: u32,
    /// The number of events.
    pub(super) events: u32,
}

impl Out<'_> {
    /// Pushes an event.
    #[inline]
    pub(crate) fn push(&mut self, store: &mut Store, stream: Stream, ts: i64, event: Event) {
        self.push_until(store, stream, (ts, ts), event);
    }

    /// Pushes a composite event with the times of its first and last part.
    #[inline]
    pub(crate) fn push_until(
        &mut self,
        store: &mut Store,
        stream: Stream,
        times: (i64, i64),
        event: Event,
    ) {
        let sorter = &mut self.sorter;
        if sorter.push_until(store, stream, times, self.state, event) {
            self.events += 1;
        }
    }
}
