//! Tokenizes packets: converts their times, and passes them to their topics.

use ferretto_format::sequence::PacketHeader;
use ferretto_format::track_event::EventGlance;

use super::arena::{Arena, Span};
use super::context::{Context, EventState};
use super::event::Event;
use super::head::Content;
use super::sequence::Sequences;
use super::sorter::{Sorter, Stream};
use super::topics::Topics;
use super::{MAX_PARKED, Parked};
use crate::stats::Stat;
use crate::store::{Lost, Store};
use crate::trackers::clock::{self, ClockId};

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
    arena: &'a Arena,
    span: Span,
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
    sorter: &'a mut Sorter,
    state: u32,
    /// The number of events.
    events: u32,
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

/// The location of a packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) span: Span,
    /// The offset in the file.
    pub(super) offset: u64,
    /// The index of its sequence.
    pub(super) sequence: u32,
}

/// The parts of an import that are needed to tokenize packets.
pub(super) struct Tokenizer<'a> {
    pub(super) context: &'a mut Context,
    pub(super) sequences: &'a mut Sequences,
    pub(super) sorter: &'a mut Sorter,
    pub(super) topics: &'a mut Topics,
    pub(super) latest: &'a mut i64,
    pub(super) parked: &'a mut Parked,
}

impl Tokenizer<'_> {
    /// Converts the time of a packet, and passes it to its topic. Returns the number of events.
    pub(super) fn packet(
        &mut self,
        arena: &Arena,
        at: Place,
        header: &PacketHeader<'_>,
        content: &Content<'_>,
    ) -> u32 {
        let Self {
            context,
            sequences,
            sorter,
            topics,
            parked,
            ..
        } = self;
        let Place {
            span,
            offset,
            sequence,
        } = at;
        let number = sequences.all[sequence as usize].state;
        let state = sequences.state(number);
        let ts = match header.timestamp {
            None => (*self.latest).max(sorter.latest),
            Some(value) => {
                let named = header.clock.filter(|clock| *clock != 0);
                let named = named.or(state.defaults.clock.filter(|clock| *clock != 0));
                let clock = match named {
                    Some(id) if ClockId::is_of_sequence(id) => Some(ClockId {
                        id,
                        sequence: header.sequence,
                        file: context.store.trace_file,
                        machine: context.store.machine,
                    }),
                    Some(id) => Some(ClockId::of_machine(context.store.machine, id)),
                    None => context.clocks.default_clock(context.store.machine),
                };
                let value = value as i64;
                let converted = match clock {
                    Some(clock) => context.clocks.trace_time(clock, value),
                    None => Ok(value),
                };
                match converted {
                    Ok(ts) => ts,
                    Err(error) => {
                        let bytes = arena.bytes(span);
                        if !parked.is_at_end
                            && parked.bytes + bytes.len() <= MAX_PARKED
                            && sorter.sort_fully()
                        {
                            parked.bytes += bytes.len();
                            parked.packets.push((bytes.into(), offset));
                            return 0;
                        }
                        if let Some(clock) = clock {
                            let trace = context.clocks.trace_clock();
                            clock::log(
                                error,
                                &mut context.store,
                                clock,
                                value,
                                trace,
                                Some(offset),
                            );
                        }
                        let stat = Stat::clock_sync_failure_undeferrable_packet_loss;
                        context.store.log_at(stat, offset);
                        return 0;
                    }
                }
            }
        };
        *self.latest = (*self.latest).max(ts);
        if !header.loss.is_none() && sequences.all[sequence as usize].losses > 0 {
            let sequence = header.sequence;
            context.store.lost(ts, Lost::Packets { sequence });
        }
        let Some(field) = content.data else {
            return 0;
        };
        let input = Input {
            field: field.number,
            bytes: field.as_bytes().unwrap_or_default(),
            glance: content.glance,
            header,
            offset,
            ts,
            sequence,
            state: EventState { sequences, state },
            arena,
            span,
        };
        let mut out = Out {
            sorter,
            state: number,
            events: 0,
        };
        topics.tokenize(context, &input, &mut out);
        let events = out.events;
        sequences.keep(number, events);
        events
    }
}
