//! Bundles of kernel events: their times, and the part of a bundle within a time window.

use ferretto_format::compact_sched::{CompactKind, CompactRow, CompactSched};
use ferretto_format::kernel_bundle::BundleHeader;
use ferretto_format::sequence::Clocks;
use ferretto_proto::fields::ftrace_event_bundle::{self as bundle, compact_sched as compact};
use ferretto_proto::fields::{ftrace_event, trace_packet};
use ferretto_wire::{Encoder, Fields, encode, encode_varint};

use crate::packet::{copy, rewrite};

/// A bundle of one CPU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bundle<'a> {
    pub(crate) cpu: u32,
    /// The time since which the events of the CPU are complete, if this is its first bundle.
    pub(crate) begin: Option<u64>,
    header: BundleHeader,
    bytes: &'a [u8],
}

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
    pub(crate) fn read(bytes: &'a [u8], machine: u32, clocks: &Clocks) -> Self {
        let header = BundleHeader::read(bytes, machine, clocks);
        Self {
            cpu: header.cpu.unwrap_or(0),
            begin: header.begin,
            header,
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
        self.header.to_boot(time.unwrap_or(0))
    }

    fn compact(&self, bytes: &'a [u8], out: &mut Vec<(u64, Event<'a>)>) {
        let columns = CompactSched::read(bytes);
        let mut add = |row: CompactRow<'a>, event| out.push((self.header.to_boot(row.time), event));
        for row in columns.rows(CompactKind::Switches) {
            let event = Event::Switch(row.first, row.second, row.priority, row.name);
            add(row, event);
        }
        for row in columns.rows(CompactKind::Wakings) {
            let event = Event::Waking(row.first, row.second, row.priority, row.name, row.flags);
            add(row, event);
        }
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
                    let columns = CompactSched::read(field.as_bytes().unwrap_or_default());
                    let is_within = |time: u64| is_within(self.header.to_boot(time));
                    if let Some(left) = filtered(&columns, is_within) {
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

/// Returns a `CompactSched` with only the rows whose times are `within`; `None` if there are none.
fn filtered(columns: &CompactSched<'_>, within: impl Fn(u64) -> bool) -> Option<Vec<u8>> {
    let mut is_empty = true;
    // Older traces have no flags.
    let has_flags = !columns.column(compact::WAKING_COMMON_FLAGS).is_empty();
    let left = encode(|out| {
        let names = columns.names.iter();
        names.for_each(|name| out.bytes(compact::INTERN_TABLE, name));
        columns.others.iter().for_each(|field| copy(field, out));
        for kind in [CompactKind::Switches, CompactKind::Wakings] {
            let mut packed: [Vec<u8>; 5] = Default::default();
            let mut flags = Vec::new();
            let mut last = 0;
            // The names stay, so that their indexes do.
            let rows = columns.rows(kind).filter(|row| within(row.time));
            for row in rows {
                is_empty = false;
                let ahead = row.time.wrapping_sub(last);
                last = row.time;
                let row_values = [ahead, row.first, row.second, row.priority, row.name_index];
                for (column, value) in packed.iter_mut().zip(row_values) {
                    push(column, value);
                }
                push(&mut flags, row.flags);
            }
            for (number, packed) in kind.columns().into_iter().zip(&packed) {
                if !packed.is_empty() {
                    out.bytes(number, packed);
                }
            }
            if kind == CompactKind::Wakings && has_flags && !flags.is_empty() {
                out.bytes(compact::WAKING_COMMON_FLAGS, &flags);
            }
        }
    });
    (!is_empty).then_some(left)
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
