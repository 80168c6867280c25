//! Packed events, for those that wait long.

use std::num::NonZeroU32;

use ferretto_format::compact_sched::CompactKind;
use ferretto_wire::{MAX_VARINT_LENGTH, decode_varint, encode_varint, zigzag, zigzag_decode};

use super::Token;
use crate::import::arena::Span;
use crate::import::event::{CompactSwitch, CompactWaking, Event, LineKind};
use crate::strings::StringId;

/// A sequence of events, each as the difference to its predecessor.
#[derive(Debug)]
pub(super) struct Packed(Box<[u8]>);

/// The predecessor of the next event.
#[derive(Debug, Clone, Copy)]
struct Before {
    ts: i64,
    arrival: u32,
    span: Span,
    /// The field of the last packet.
    field: u32,
    /// The CPU of the last kernel event.
    cpu: u16,
}

impl Before {
    const NONE: Self = Self {
        ts: 0,
        arrival: 0,
        span: Span::EMPTY,
        field: 0,
        cpu: 0,
    };
}

/// The kind of an event.
mod kind {
    pub(super) const PACKET: u64 = 0;
    pub(super) const TRACK_EVENT: u64 = 1;
    pub(super) const JSON: u64 = 2;
    pub(super) const SYSTRACE: u64 = 3;
    pub(super) const PERF_TEXT: u64 = 4;
    pub(super) const FTRACE: u64 = 5;
    pub(super) const SWITCHES: u64 = 6;
    pub(super) const WAKINGS: u64 = 7;
    pub(super) const SWITCH: u64 = 8;
    pub(super) const WAKING: u64 = 9;
    /// Track events, packets and kernel events with small differences.
    pub(super) const SHORT_TRACK_EVENT: u64 = 10;
    pub(super) const SHORT_PACKET: u64 = 11;
    pub(super) const STRACE: u64 = 12;
    pub(super) const POWER_RAIL: u64 = 13;
    pub(super) const ETW: u64 = 14;
    pub(super) const COUNTER: u64 = 15;
    pub(super) const SHORT_FTRACE: u64 = 16;
    /// The limit of kinds, a power of two.
    pub(super) const END: u64 = 32;
}

/// The differences of most events to their predecessors, which fit into eight bytes.
mod short {
    use super::kind;

    /// The bits of the state number, of the time difference, and of the offset in the batch.
    const STATE: u32 = 16;
    const TIME: u32 = 25;
    const START: u32 = 18;
    const KIND: u32 = kind::END.trailing_zeros();
    const _: () = assert!(KIND + STATE + TIME + START == 64);

    #[inline]
    pub(super) fn join(kind: u64, state: u32, time: i64, start: i64) -> Option<u64> {
        let (state, time, start) = (u64::from(state), time as u64, start as u64);
        (state >> STATE == 0 && time >> TIME == 0 && start >> START == 0).then_some(
            kind | state << KIND | time << (KIND + STATE) | start << (KIND + STATE + TIME),
        )
    }

    #[inline]
    pub(super) fn split(word: u64) -> (u32, i64, i64) {
        let part = |shift: u32, bits: u32| word >> shift & ((1 << bits) - 1);
        let state = part(KIND, STATE) as u32;
        let time = part(KIND + STATE, TIME) as i64;
        (state, time, part(KIND + STATE + TIME, START) as i64)
    }
}

/// A writer of integers of variable length.
#[derive(Debug)]
struct Writer<'a>(&'a mut Vec<u8>);

impl Writer<'_> {
    #[inline]
    fn put(&mut self, value: u64) {
        if value < 0x80 {
            self.0.push(value as u8);
            return;
        }
        let mut bytes = [0; MAX_VARINT_LENGTH];
        let length = encode_varint(value, &mut bytes);
        self.0.extend_from_slice(&bytes[..length]);
    }

    #[inline]
    fn put_signed(&mut self, value: i64) {
        self.put(zigzag(value));
    }

    #[inline]
    fn put_span(&mut self, span: Span, before: &mut Before) {
        let (batch, start) = span.difference(before.span);
        self.put_signed(batch.into());
        self.put_signed(start);
        before.span = span;
    }
}

#[derive(Debug)]
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    #[inline]
    fn take(&mut self) -> u64 {
        let (value, length) = decode_varint(self.0).unwrap_or_default();
        self.0 = self.0.get(length..).unwrap_or_default();
        value
    }

    #[inline]
    fn take_signed(&mut self) -> i64 {
        zigzag_decode(self.take())
    }

    #[inline]
    fn take_span(&mut self, before: &mut Before) -> Span {
        let batch = self.take_signed() as i32;
        let start = self.take_signed();
        before.span = before.span.plus(batch, start);
        before.span
    }
}

impl Packed {
    /// Packs events. `scratch` is reusable memory.
    pub(super) fn new(tokens: &[Token], scratch: &mut Vec<u8>) -> Self {
        scratch.clear();
        let (mut out, mut before) = (Writer(scratch), Before::NONE);
        for token in tokens {
            match shorten(token, &before) {
                Some((word, span)) => {
                    out.0.extend_from_slice(&word.to_le_bytes());
                    (before.ts, before.arrival, before.span) = (token.ts, token.arrival, span);
                }
                None => write(&mut out, token, &mut before),
            }
        }
        Self(scratch.as_slice().into())
    }

    /// Appends the events to `tokens`.
    pub(super) fn unpack(&self, tokens: &mut Vec<Token>) {
        let (mut input, mut before) = (Reader(&self.0), Before::NONE);
        while let Some(first) = input.0.first() {
            let kind = u64::from(*first) % kind::END;
            let token = match (kind, input.0.split_first_chunk()) {
                (
                    kind::SHORT_TRACK_EVENT | kind::SHORT_PACKET | kind::SHORT_FTRACE,
                    Some((word, rest)),
                ) => {
                    input.0 = rest;
                    lengthen(u64::from_le_bytes(*word), kind, &mut before)
                }
                _ => read(&mut input, &mut before),
            };
            tokens.push(token);
        }
    }

    /// Returns the memory in bytes.
    pub(super) fn memory(&self) -> usize {
        self.0.len() + size_of::<Self>()
    }
}

/// Returns the short form of an event and its bytes, if it has one.
#[inline]
fn shorten(token: &Token, before: &Before) -> Option<(u64, Span)> {
    let (kind, span) = match token.event {
        Event::TrackEvent { span, extra: None } => (kind::SHORT_TRACK_EVENT, span),
        Event::Packet { field, span } if field == before.field => (kind::SHORT_PACKET, span),
        Event::Ftrace { cpu, span } if cpu == before.cpu => (kind::SHORT_FTRACE, span),
        _ => return None,
    };
    let (0, start) = span.difference(before.span) else {
        return None;
    };
    if token.arrival.wrapping_sub(before.arrival) != 1 {
        return None;
    }
    let time = token.ts.wrapping_sub(before.ts);
    Some((short::join(kind, token.state, time, start)?, span))
}

#[inline]
fn lengthen(word: u64, kind: u64, before: &mut Before) -> Token {
    let (state, time, start) = short::split(word);
    before.ts = before.ts.wrapping_add(time);
    before.arrival = before.arrival.wrapping_add(1);
    before.span = before.span.plus(0, start);
    let span = before.span;
    Token {
        ts: before.ts,
        arrival: before.arrival,
        state,
        event: match kind {
            kind::SHORT_TRACK_EVENT => Event::TrackEvent { span, extra: None },
            kind::SHORT_FTRACE => Event::Ftrace {
                cpu: before.cpu,
                span,
            },
            _ => Event::Packet {
                field: before.field,
                span,
            },
        },
    }
}

fn write(out: &mut Writer<'_>, token: &Token, before: &mut Before) {
    let kind = match token.event {
        Event::TrackEvent { .. } => kind::TRACK_EVENT,
        Event::Packet { .. } => kind::PACKET,
        Event::Line { kind, .. } => match kind {
            LineKind::Json => kind::JSON,
            LineKind::Systrace => kind::SYSTRACE,
            LineKind::Strace => kind::STRACE,
            LineKind::PerfText => kind::PERF_TEXT,
        },
        Event::Ftrace { .. } => kind::FTRACE,
        Event::Etw { .. } => kind::ETW,
        Event::Compact { kind, .. } => match kind {
            CompactKind::Switches => kind::SWITCHES,
            CompactKind::Wakings => kind::WAKINGS,
        },
        Event::PowerRail(_) => kind::POWER_RAIL,
        Event::Counter(_) => kind::COUNTER,
        Event::Switch(_) => kind::SWITCH,
        Event::Waking(_) => kind::WAKING,
    };
    // State numbers are small, so the kind and the state usually fit into one byte.
    out.put(kind + kind::END * u64::from(token.state));
    out.put_signed(token.ts.wrapping_sub(before.ts));
    // Usually one, or zero if both belong to one bundle.
    let arrivals = token.arrival.wrapping_sub(before.arrival) as i32;
    out.put_signed(arrivals.wrapping_sub(1).into());
    (before.ts, before.arrival) = (token.ts, token.arrival);
    match token.event {
        Event::TrackEvent { span, extra } => {
            out.put_span(span, before);
            out.put(extra.map_or(0, NonZeroU32::get).into());
        }
        Event::Packet { field, span } => {
            out.put(field.into());
            out.put_span(span, before);
            before.field = field;
        }
        Event::Line { span, rank, .. } => {
            out.put_span(span, before);
            out.put_signed(rank);
        }
        Event::Ftrace { cpu, span } => {
            out.put(cpu.into());
            out.put_span(span, before);
            before.cpu = cpu;
        }
        Event::Etw { cpu, span } | Event::Compact { cpu, span, .. } => {
            out.put(cpu.into());
            out.put_span(span, before);
        }
        Event::PowerRail(index) | Event::Counter(index) => out.put(index.into()),
        Event::Switch(switch) => {
            out.put(switch.cpu.into());
            out.put_signed(switch.prev_state.into());
            out.put_signed(switch.next_pid.into());
            out.put_signed(switch.next_prio.into());
            out.put(switch.next_comm.raw().into());
        }
        Event::Waking(waking) => {
            out.put(waking.cpu.into());
            out.put(waking.target_cpu.into());
            out.put(waking.prio.into());
            out.put(waking.common_flags.into());
            out.put_signed(waking.pid.into());
            out.put(waking.comm.raw().into());
        }
    }
}

fn read(input: &mut Reader<'_>, before: &mut Before) -> Token {
    let head = input.take();
    let state = (head / kind::END) as u32;
    before.ts = before.ts.wrapping_add(input.take_signed());
    let arrivals = (input.take_signed() as i32).wrapping_add(1);
    before.arrival = before.arrival.wrapping_add(arrivals as u32);
    let line = |kind, input: &mut Reader<'_>, before: &mut Before| Event::Line {
        kind,
        span: input.take_span(before),
        rank: input.take_signed(),
    };
    let compact = |kind, input: &mut Reader<'_>, before: &mut Before| Event::Compact {
        cpu: input.take() as u16,
        kind,
        span: input.take_span(before),
    };
    let event = match head % kind::END {
        kind::TRACK_EVENT => Event::TrackEvent {
            span: input.take_span(before),
            extra: NonZeroU32::new(input.take() as u32),
        },
        kind::PACKET => {
            before.field = input.take() as u32;
            Event::Packet {
                field: before.field,
                span: input.take_span(before),
            }
        }
        kind::JSON => line(LineKind::Json, input, before),
        kind::SYSTRACE => line(LineKind::Systrace, input, before),
        kind::STRACE => line(LineKind::Strace, input, before),
        kind::PERF_TEXT => line(LineKind::PerfText, input, before),
        kind::FTRACE => {
            before.cpu = input.take() as u16;
            Event::Ftrace {
                cpu: before.cpu,
                span: input.take_span(before),
            }
        }
        kind::ETW => Event::Etw {
            cpu: input.take() as u16,
            span: input.take_span(before),
        },
        kind::SWITCHES => compact(CompactKind::Switches, input, before),
        kind::WAKINGS => compact(CompactKind::Wakings, input, before),
        kind::POWER_RAIL => Event::PowerRail(input.take() as u32),
        kind::COUNTER => Event::Counter(input.take() as u32),
        kind::SWITCH => Event::Switch(CompactSwitch {
            cpu: input.take() as u16,
            prev_state: input.take_signed() as i32,
            next_pid: input.take_signed() as i32,
            next_prio: input.take_signed() as i32,
            next_comm: StringId(input.take() as u32),
        }),
        _ => Event::Waking(CompactWaking {
            cpu: input.take() as u16,
            target_cpu: input.take() as u16,
            prio: input.take() as u16,
            common_flags: input.take() as u16,
            pid: input.take_signed() as i32,
            comm: StringId(input.take() as u32),
        }),
    };
    Token {
        ts: before.ts,
        arrival: before.arrival,
        state,
        event,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_events_are_unpacked_unchanged() {
        let span = |batch, start| Span::EMPTY.plus(batch, start);
        let switch = CompactSwitch {
            cpu: u16::MAX,
            prev_state: i32::MIN,
            next_pid: -1,
            next_prio: i32::MAX,
            next_comm: StringId(u32::MAX),
        };
        let waking = CompactWaking {
            cpu: 1,
            target_cpu: u16::MAX,
            prio: 120,
            common_flags: 1,
            pid: i32::MAX,
            comm: StringId::NULL,
        };
        let packet = |field, batch, start| Event::Packet {
            field,
            span: span(batch, start),
        };
        let track_event = |batch, start| Event::TrackEvent {
            span: span(batch, start),
            extra: None,
        };
        let ftrace = |cpu, batch, start| Event::Ftrace {
            cpu,
            span: span(batch, start),
        };
        let line = |kind, rank| Event::Line {
            kind,
            span: span(7, 1),
            rank,
        };
        let events = [
            track_event(1, 0),
            Event::TrackEvent {
                span: span(1, i64::from(u32::MAX)),
                extra: NonZeroU32::new(u32::MAX),
            },
            Event::Packet {
                field: (1 << 29) - 1,
                span: Span::EMPTY,
            },
            line(LineKind::Json, i64::MIN),
            line(LineKind::Systrace, i64::MAX),
            line(LineKind::PerfText, 0),
            Event::Ftrace {
                cpu: 0,
                span: span(i32::MIN, 5),
            },
            Event::Compact {
                cpu: 3,
                kind: CompactKind::Switches,
                span: span(9, 9),
            },
            Event::Compact {
                cpu: u16::MAX,
                kind: CompactKind::Wakings,
                span: span(9, 8),
            },
            Event::Switch(switch),
            Event::Waking(waking),
            Event::PowerRail(u32::MAX),
            Event::Counter(7),
            Event::Etw {
                cpu: 4,
                span: span(9, 9),
            },
            line(LineKind::Strace, 3),
            packet(7, 9, 20),
            packet(7, 9, 50),
            packet(8, 9, 60),
            packet(8, 9, 60 + (1 << 18)),
            track_event(9, 60 + (1 << 18)),
            track_event(10, 0),
            track_event(10, (1 << 18) - 1),
            ftrace(5, 10, 1 << 18),
            ftrace(5, 10, (1 << 18) + 20),
            ftrace(6, 10, (1 << 18) + 40),
            ftrace(6, 10, (1 << 18) + 60),
        ];
        let numbers = [0, 1, u32::MAX, 5, 5, 5, 1 << 31, 4, 2, 0, 7, 6, 9, 8, 1];
        let numbers = numbers.into_iter().chain(2..13);
        let times = [0, i64::MAX, 0, 5, 4, 3, i64::MAX, 1, 1, 1, 1, 1, 1, 1, 1];
        let times = times
            .into_iter()
            .chain([2, 3, 4, 5, 4 + (1 << 25), 1 << 40, 1 << 40])
            .chain((0..4).map(|at| (1 << 40) + at));
        let tokens: Vec<_> = events
            .into_iter()
            .zip(numbers)
            .zip(times)
            .map(|((event, number), ts)| Token {
                ts,
                arrival: number,
                state: number,
                event,
            })
            .collect();
        let packed = Packed::new(&tokens, &mut Vec::new());
        let mut unpacked = Vec::new();
        packed.unpack(&mut unpacked);
        assert_eq!(format!("{unpacked:?}"), format!("{tokens:?}"));
    }
}
