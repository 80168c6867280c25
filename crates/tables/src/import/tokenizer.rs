//! Tokenizes packets: converts their times, and passes them to their topics.

use ferretto_format::sequence::PacketHeader;

use super::arena::{Arena, Span};
use super::context::{Context, EventState};
use super::head::Content;
use super::input::{Input, Out};
use super::sequence::Sequences;
use super::sorter::Sorter;
use super::topics::Topics;
use super::{MAX_PARKED, Parked};
use crate::stats::Stat;
use crate::store::Lost;
use crate::trackers::clock::{self, ClockId};

/// The location of a packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct PacketLocation {
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
        at: PacketLocation,
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
        let PacketLocation {
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
