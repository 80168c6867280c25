//! Bundles of kernel events: their times, and the part of a bundle within a time window.

use ferretto_format::clock::MONOTONIC_RAW;
use ferretto_format::sequence::Clocks;
use ferretto_proto::fields::ftrace_event_bundle::{self as bundle, compact_sched as compact};
use ferretto_proto::fields::{ftrace_event, trace_packet};
use ferretto_wire::{Encoder, Fields, Value, encode, encode_varint};

use crate::packet::{copy, rewrite};

/// Values of `FtraceClock`.
const GLOBAL: u64 = 2;
const LOCAL: u64 = 3;
const MONO_RAW: u64 = 4;

/// The columns of compact context switches, times first.
const SWITCHES: [u32; 5] = [
    compact::SWITCH_TIMESTAMP,
    compact::SWITCH_PREV_STATE,
    compact::SWITCH_NEXT_PID,
    compact::SWITCH_NEXT_PRIO,
    compact::SWITCH_NEXT_COMM_INDEX,
];
/// The columns of compact wake-ups, times first.
const WAKINGS: [u32; 6] = [
    compact::WAKING_TIMESTAMP,
    compact::WAKING_PID,
    compact::WAKING_TARGET_CPU,
    compact::WAKING_PRIO,
    compact::WAKING_COMM_INDEX,
    compact::WAKING_COMMON_FLAGS,
];

/// A bundle of one CPU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bundle<'a> {
    pub(crate) cpu: u32,
    /// The time since which the events of the CPU are complete, if this is its first bundle.
    pub(crate) begin: Option<u64>,
    /// The difference between boot time and times in the bundle.
    shift: u64,
    bytes: &'a [u8],
}

/// A row of a compact bundle: the values of its columns, without the time.
pub(crate) type Row = [u64; 5];

/// An event of a bundle.
#[derive(Debug)]
pub(crate) enum Event<'a> {
    /// An encoded event.
    Full(&'a [u8]),
    /// A context switch: the state of the previous thread; pid, priority and name of the next one.
    Switch(u64, u64, u64, &'a [u8]),
    /// A wake-up: pid, target CPU, priority, name and common flags.
    Waking(u64, u64, u64, &'a [u8], u64),
}

impl<'a> Bundle<'a> {
    /// Reads the header fields of a `FtraceEventBundle`.
    pub(crate) fn read(bytes: &'a [u8], clocks: &Clocks) -> Self {
        let (mut cpu, mut clock, mut there, mut boot) = (0, 0, 0, 0);
        let (mut end, mut read) = (None, None);
        for field in Fields::new(bytes).map_while(Result::ok) {
            let number = field.as_u64().unwrap_or(0);
            match field.number {
                bundle::CPU => cpu = number as u32,
                bundle::FTRACE_CLOCK => clock = number,
                bundle::FTRACE_TIMESTAMP => there = number,
                bundle::BOOT_TIMESTAMP => boot = number,
                bundle::PREVIOUS_BUNDLE_END_TIMESTAMP => end = Some(number),
                bundle::LAST_READ_EVENT_TIMESTAMP => read = Some(number),
                _ => {}
            }
        }
        let shift = match clock {
            GLOBAL | LOCAL => boot.wrapping_sub(there),
            MONO_RAW => clocks.to_boot(1 << 40, MONOTONIC_RAW).unwrap_or(1 << 40) - (1 << 40),
            _ => 0,
        };
        let begin = end.or(read).map(|time| match time {
            0 => 0,
            time => time.wrapping_add(shift),
        });
        Self {
            cpu,
            begin,
            shift,
            bytes,
        }
    }

    /// Calls `each` for all events with their boot times. Compact events and others keep their
    /// order, and are merged by time.
    pub(crate) fn events(&self, mut each: impl FnMut(u64, Event<'a>)) {
        let mut compact: Vec<(u64, Event<'a>)> = Vec::new();
        for field in Fields::new(self.bytes).map_while(Result::ok) {
            if field.number == bundle::COMPACT_SCHED {
                self.compact(field.as_bytes().unwrap_or_default(), &mut compact);
            }
        }
        compact.sort_by_key(|(time, _)| *time);
        let mut compact = compact.into_iter().peekable();
        for field in Fields::new(self.bytes).map_while(Result::ok) {
            if field.number != bundle::EVENT {
                continue;
            }
            let event = field.as_bytes().unwrap_or_default();
            let time = self.time(event);
            while let Some((at, event)) = compact.next_if(|(at, _)| *at <= time) {
                each(at, event);
            }
            each(time, Event::Full(event));
        }
        compact.for_each(|(at, event)| each(at, event));
    }

    fn time(&self, event: &[u8]) -> u64 {
        let time = Fields::find(ftrace_event::TIMESTAMP, event).and_then(|time| time.as_u64());
        time.unwrap_or(0).wrapping_add(self.shift)
    }

    fn compact(&self, bytes: &'a [u8], out: &mut Vec<(u64, Event<'a>)>) {
        let columns = Columns::read(bytes);
        let name = |index: u64| {
            let name = usize::try_from(index)
                .ok()
                .and_then(|at| columns.names.get(at));
            name.copied().unwrap_or_default()
        };
        columns.rows(&SWITCHES, |time, [state, pid, priority, comm, _]| {
            let event = Event::Switch(state, pid, priority, name(comm));
            out.push((time.wrapping_add(self.shift), event));
        });
        columns.rows(&WAKINGS, |time, [pid, cpu, priority, comm, flags]| {
            let event = Event::Waking(pid, cpu, priority, name(comm), flags);
            out.push((time.wrapping_add(self.shift), event));
        });
    }

    /// Returns the bundle with only the events between the boot times `from` (inclusive) and `to`
    /// (exclusive); `None` if it is empty.
    pub(crate) fn between(&self, from: u64, to: u64) -> Option<Vec<u8>> {
        let is_within = |time: u64| time >= from && time < to;
        let mut is_empty = true;
        let changed = encode(|out| {
            rewrite(self.bytes, out, |field, out| match field.number {
                bundle::EVENT => {
                    let is_left = is_within(self.time(field.as_bytes().unwrap_or_default()));
                    is_empty &= !is_left;
                    !is_left
                }
                bundle::COMPACT_SCHED => {
                    let columns = Columns::read(field.as_bytes().unwrap_or_default());
                    let is_within = |time: u64| is_within(time.wrapping_add(self.shift));
                    if let Some(left) = columns.filter(is_within) {
                        is_empty = false;
                        out.bytes(bundle::COMPACT_SCHED, &left);
                    }
                    true
                }
                bundle::GENERIC_EVENT_DESCRIPTORS => {
                    is_empty = false;
                    false
                }
                _ => false,
            });
        });
        (!is_empty).then_some(changed)
    }
}

/// The packed columns of a `CompactSched`.
#[derive(Debug)]
struct Columns<'a> {
    names: Vec<&'a [u8]>,
    packed: [&'a [u8]; 13],
    others: Vec<ferretto_wire::Field<'a>>,
}

impl<'a> Columns<'a> {
    fn read(bytes: &'a [u8]) -> Self {
        let mut columns = Self {
            names: Vec::new(),
            packed: [&[]; 13],
            others: Vec::new(),
        };
        for field in Fields::new(bytes).map_while(Result::ok) {
            match (field.number, field.value) {
                (compact::INTERN_TABLE, Value::Bytes(name)) => columns.names.push(name),
                (number @ 1..=12, Value::Bytes(packed)) => columns.packed[number as usize] = packed,
                _ => columns.others.push(field),
            }
        }
        columns
    }

    /// Calls `each` for the rows of a kind, with absolute times, up to the end of the shortest
    /// column.
    fn rows(&self, kind: &[u32], mut each: impl FnMut(u64, Row)) {
        let mut columns: Vec<_> = kind
            .iter()
            .map(|number| varints(self.packed[*number as usize]))
            .collect();
        let mut time = 0_u64;
        while let Some(ahead) = columns[0].next() {
            time = time.wrapping_add(ahead);
            let mut row = Row::default();
            for (place, column) in columns[1..].iter_mut().enumerate() {
                // Older traces have no flags.
                let value = column.next();
                match value {
                    Some(value) => row[place] = value,
                    None if kind[place + 1] == compact::WAKING_COMMON_FLAGS => {}
                    None => return,
                }
            }
            each(time, row);
        }
    }

    /// Returns the message with only the rows whose times are `within`; `None` if there are none.
    fn filter(&self, within: impl Fn(u64) -> bool) -> Option<Vec<u8>> {
        let mut is_empty = true;
        let has_flags = !self.packed[compact::WAKING_COMMON_FLAGS as usize].is_empty();
        let left = encode(|out| {
            self.names
                .iter()
                .for_each(|name| out.bytes(compact::INTERN_TABLE, name));
            self.others.iter().for_each(|field| copy(field, out));
            for kind in [&SWITCHES[..], &WAKINGS[..]] {
                let mut packed = vec![Vec::new(); kind.len()];
                let mut last = 0;
                self.rows(kind, |time, row| {
                    if !within(time) {
                        return;
                    }
                    is_empty = false;
                    push(&mut packed[0], time.wrapping_sub(last));
                    last = time;
                    for (column, value) in packed[1..].iter_mut().zip(row) {
                        push(column, value);
                    }
                });
                for (number, packed) in kind.iter().zip(&packed) {
                    let is_there = *number != compact::WAKING_COMMON_FLAGS || has_flags;
                    if !packed.is_empty() && is_there {
                        out.bytes(*number, packed);
                    }
                }
            }
        });
        (!is_empty).then_some(left)
    }
}

/// Returns the numbers of a packed column.
fn varints(packed: &[u8]) -> impl Iterator<Item = u64> {
    let mut rest = packed;
    std::iter::from_fn(move || {
        let (value, length) = ferretto_wire::decode_varint(rest)?;
        rest = &rest[length..];
        Some(value)
    })
}

fn push(column: &mut Vec<u8>, value: u64) {
    let mut bytes = [0; 10];
    let length = encode_varint(value, &mut bytes);
    column.extend_from_slice(&bytes[..length]);
}

/// Encodes a packet with a bundle of events. The events of all CPUs are complete since
/// `complete_from`.
pub(crate) fn packet_of(
    (cpu, complete_from): (u32, u64),
    head: impl FnOnce(&mut Encoder<'_, Vec<u8>>),
    events: &[Vec<u8>],
) -> Vec<u8> {
    encode(|out| {
        head(out);
        out.nested(trace_packet::FTRACE_EVENTS, |out| {
            out.varint(bundle::CPU, cpu.into());
            out.varint(bundle::PREVIOUS_BUNDLE_END_TIMESTAMP, complete_from);
            events
                .iter()
                .for_each(|event| out.bytes(bundle::EVENT, event));
        });
    })
}
