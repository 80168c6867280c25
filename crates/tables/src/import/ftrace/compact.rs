//! Compact context switches and wake-ups: columns, with times as differences.
//!
//! Bundles wait in the sorter as they are, since separate events would take four times the memory.

use ferretto_proto::fields::ftrace_event_bundle::compact_sched as field;
use ferretto_wire::{Field, Fields, Value, Varints, decode_varint};

use super::{Context, Out};
use crate::import::arena::Span;
use crate::import::event::{CompactKind, CompactSwitch, CompactWaking, Event};
use crate::import::sorter::Stream;
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::clock::ClockId;

/// The reader of the compact form.
#[derive(Debug, Default)]
pub(super) struct Compact {
    /// The number of names of the current bundle.
    count: usize,
    /// The names of the last bundle of each CPU, which are used for its switches and its wake-ups.
    names: Vec<(Span, Vec<StringId>)>,
}

/// The maximum number of names of a bundle.
const MAX_NAMES: usize = 1 << 16;

/// The number of events from which a bundle is split into separate events at once, so that the
/// memory limit is checked in between.
const MAX_EVENTS: u32 = 1 << 16;

/// The packed columns, by field number.
type Columns<'a> = [&'a [u8]; 13];

/// The extent of the events of one kind.
#[derive(Debug)]
struct Extent {
    first: i64,
    last: i64,
    count: u32,
    /// Set if times ascend and are not negative.
    is_sorted: bool,
    /// Set if all columns are well-formed and of equal length.
    is_whole: bool,
}

impl Compact {
    /// Pushes the events of a `CompactSched`.
    pub(super) fn tokenize(
        &mut self,
        cx: &mut Context,
        (cpu, clock): (u32, ClockId),
        bytes: &[u8],
        span: Span,
        out: &mut Out<'_>,
    ) {
        self.count = 0;
        let columns = columns(bytes, |_| self.count = MAX_NAMES.min(self.count + 1));
        for kind in [CompactKind::Switches, CompactKind::Wakings] {
            let extent = self.extent(kind, &columns);
            if !extent.is_whole {
                let stat = Stat::compact_sched_has_parse_errors;
                cx.store.stats.add(stat, 1);
            }
            if extent.count == 0 {
                continue;
            }
            let stream = match kind {
                CompactKind::Switches => Stream::Switches(cpu),
                CompactKind::Wakings => Stream::Wakings(cpu),
            };
            let cpu = cpu as u16;
            // Times without a conversion are the same when they are read again.
            let is_same = cx.clocks.trace_time(clock, extent.first) == Ok(extent.first)
                && clock == cx.clocks.trace_clock();
            if is_same && extent.is_sorted && extent.is_whole && extent.count <= MAX_EVENTS {
                let event = Event::Compact { cpu, kind, span };
                let times = (extent.first, extent.last);
                out.push_until(&mut cx.store, stream, times, event);
                continue;
            }
            let names = self.names(cx, cpu, bytes, span);
            read(kind, &columns, names, cpu, |time, event| {
                if let Ok(ts) = cx.clocks.trace_time(clock, time) {
                    out.push(&mut cx.store, stream, ts, event);
                }
            });
        }
    }

    /// Calls `each` with all events of a kind and their times.
    pub(super) fn expand(
        &mut self,
        cx: &mut Context,
        cpu: u16,
        kind: CompactKind,
        (bytes, span): (&[u8], Span),
        each: impl FnMut(i64, Event),
    ) {
        let names = self.names(cx, cpu, bytes, span);
        read(kind, &columns(bytes, |_| ()), names, cpu, each);
    }

    /// Returns the names of a bundle.
    fn names(&mut self, cx: &mut Context, cpu: u16, bytes: &[u8], span: Span) -> &[StringId] {
        let place = usize::from(cpu);
        if self.names.len() <= place {
            self.names.resize(place + 1, (Span::EMPTY, Vec::new()));
        }
        let (known, names) = &mut self.names[place];
        if *known != span {
            *known = span;
            names.clear();
            columns(bytes, |name| {
                if names.len() < MAX_NAMES {
                    names.push(cx.store.strings.intern_bytes(name));
                }
            });
        }
        names
    }

    /// Returns the extent of the events of a kind.
    fn extent(&self, kind: CompactKind, columns: &Columns<'_>) -> Extent {
        let of_kind = kind.columns().map(|number| columns[number as usize]);
        let names = self.count as u64;
        let [times, one, two, prio, name] = of_kind;
        // Columns that can be counted without decoding are well-formed.
        if let Some(count) = count(one)
            && self::count(two) == Some(count)
            && self::count(prio) == Some(count)
        {
            let extent = Extent::read(names, [times, name]);
            if extent.is_whole && extent.count as usize == count {
                return extent;
            }
        }
        Extent::read(names, of_kind)
    }
}

impl Extent {
    /// Reads columns, the first of which contains times and the last one indexes below `names`.
    fn read<const N: usize>(names: u64, columns: [&[u8]; N]) -> Self {
        let mut extent = Self {
            first: 0,
            last: 0,
            count: 0,
            is_sorted: true,
            is_whole: true,
        };
        let mut time = 0_i64;
        extent.is_whole = each(columns, |row| {
            if row[N - 1] >= names {
                return false;
            }
            time = time.wrapping_add(row[0] as i64);
            if extent.count == 0 {
                (extent.first, extent.last) = (time, time);
            }
            extent.is_sorted &= time >= extent.last && time >= 0;
            extent.last = time;
            extent.count += 1;
            true
        });
        extent
    }
}

/// Returns the number of values in a packed column, without decoding it. `None` if it is malformed
/// or contains long values.
fn count(column: &[u8]) -> Option<usize> {
    if column.last().is_some_and(|last| *last >= 0x80) {
        return None;
    }
    let (words, rest) = column.as_chunks();
    let (mut count, mut are_short) = (0, true);
    for word in words {
        let last = !u64::from_le_bytes(*word) & LAST;
        // No value is longer than ten bytes if each half of a word contains the last byte of one.
        are_short &= last as u32 != 0 && last >> 32 != 0;
        count += ((last >> 7).wrapping_mul(0x0101_0101_0101_0101) >> 56) as usize;
    }
    count += rest.iter().filter(|byte| **byte < 0x80).count();
    are_short.then_some(count)
}

/// Calls `row` with all events of a kind and their times.
fn read(
    kind: CompactKind,
    columns: &Columns<'_>,
    names: &[StringId],
    cpu: u16,
    mut row: impl FnMut(i64, Event),
) {
    let of_kind = kind.columns().map(|number| columns[number as usize]);
    let mut flags = varints(columns[field::WAKING_COMMON_FLAGS as usize]);
    let mut time = 0_i64;
    each(of_kind, |[ahead, one, two, prio, name]| {
        let Some(comm) = names.get(name as usize).copied() else {
            return false;
        };
        time = time.wrapping_add(ahead as i64);
        let event = match kind {
            CompactKind::Switches => Event::Switch(CompactSwitch {
                cpu,
                prev_state: one as i32,
                next_pid: two as i32,
                next_prio: prio as i32,
                next_comm: comm,
            }),
            CompactKind::Wakings => Event::Waking(CompactWaking {
                cpu,
                target_cpu: two as u16,
                prio: prio as u16,
                common_flags: flags.next().unwrap_or(0) as u16,
                pid: one as i32,
                comm,
            }),
        };
        row(time, event);
        true
    });
}

impl CompactKind {
    /// Returns the columns of all events. The first one is the time, the last one the name.
    fn columns(self) -> [u32; 5] {
        match self {
            Self::Switches => [
                field::SWITCH_TIMESTAMP,
                field::SWITCH_PREV_STATE,
                field::SWITCH_NEXT_PID,
                field::SWITCH_NEXT_PRIO,
                field::SWITCH_NEXT_COMM_INDEX,
            ],
            Self::Wakings => [
                field::WAKING_TIMESTAMP,
                field::WAKING_PID,
                field::WAKING_TARGET_CPU,
                field::WAKING_PRIO,
                field::WAKING_COMM_INDEX,
            ],
        }
    }
}

/// Returns the columns, and calls `name` with each name.
fn columns<'a>(bytes: &'a [u8], mut name: impl FnMut(&'a [u8])) -> Columns<'a> {
    let mut columns = Columns::default();
    Fields::walk(bytes, |Field { number, value }| match (number, value) {
        (field::INTERN_TABLE, Value::Bytes(text)) => name(text),
        (number @ 1..=12, Value::Bytes(packed)) => columns[number as usize] = packed,
        _ => {}
    });
    columns
}

fn varints(packed: &[u8]) -> Varints<'_> {
    let field = Field {
        number: 1,
        value: Value::Bytes(packed),
    };
    field.as_varints()
}

/// The number of rows that are decoded together.
const ROWS: usize = 128;

/// Calls `row` with the rows of packed columns until it returns false. Returns true if all columns
/// are well-formed, of equal length and completely read.
#[inline]
fn each<const N: usize>(mut columns: [&[u8]; N], mut row: impl FnMut([u64; N]) -> bool) -> bool {
    let mut decoded = [[0; ROWS]; N];
    loop {
        let mut counts = [0; N];
        let of_column = columns.iter_mut().zip(&mut decoded);
        for ((column, values), count) in of_column.zip(&mut counts) {
            *count = decode(column, values);
        }
        let rows = counts.into_iter().min().unwrap_or(0);
        for place in 0..rows {
            if !row(decoded.each_ref().map(|values| values[place])) {
                return false;
            }
        }
        if rows < ROWS {
            return counts.iter().all(|count| *count == rows);
        }
    }
}

/// The highest bits of eight bytes. That of the last byte of a value is 0.
const LAST: u64 = 0x8080_8080_8080_8080;

/// Decodes integers of a packed column into `values`, and returns their number.
#[inline]
fn decode(column: &mut &[u8], values: &mut [u64; ROWS]) -> usize {
    /// The highest bits of four values of two bytes, such as pids.
    const TWO: u64 = 0x0080_0080_0080_0080;
    let mut place = 0;
    while place < ROWS {
        if let Some((eight, rest)) = column.split_first_chunk::<8>() {
            let word = u64::from_le_bytes(*eight);
            let mut places = values[place..].iter_mut();
            if word & LAST == 0 && places.len() >= 8 {
                for (value, byte) in places.zip(eight) {
                    *value = u64::from(*byte);
                }
                *column = rest;
                place += 8;
                continue;
            }
            if word & LAST == TWO && places.len() >= 4 {
                let low = word & 0x007f_007f_007f_007f | (word & 0x7f00_7f00_7f00_7f00) >> 1;
                for (number, value) in places.by_ref().take(4).enumerate() {
                    *value = low >> (16 * number) & 0x3fff;
                }
                *column = rest;
                place += 4;
                continue;
            }
        }
        let Some((number, length)) = decode_varint(column) else {
            *column = &[];
            return place;
        };
        values[place] = number;
        *column = column.get(length..).unwrap_or_default();
        place += 1;
    }
    ROWS
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferretto_testing::Random;
    use ferretto_wire::encode_varint;

    #[test]
    fn the_count_of_a_column_is_that_of_its_decoded_values() {
        let mut random = Random(5);
        let mut next = |limit: u64| random.below(limit as usize) as u64;
        let (mut counted, mut not_counted) = (0, 0);
        for round in 0..3000_u64 {
            let mut column = Vec::new();
            let bits = 1 + next(round % 40 + 1);
            let numbers = (0..next(300)).map(|_| next(1 << bits.min(31)) << (bits / 10));
            let numbers: Vec<u64> = numbers.collect();
            for number in &numbers {
                let mut bytes = [0; 10];
                let length = encode_varint(*number, &mut bytes);
                column.extend_from_slice(&bytes[..length]);
            }
            if round % 5 == 0 {
                // The column may end within a value.
                column.truncate(next(column.len() as u64 + 1) as usize);
            }
            let mut decoded = Vec::new();
            let is_whole = each([column.as_slice()], |[number]| {
                decoded.push(number);
                true
            });
            assert_eq!(decoded, numbers[..decoded.len()]);
            match count(&column) {
                Some(count) => assert_eq!(count, decoded.len()),
                None => not_counted += 1,
            }
            counted += usize::from(is_whole && count(&column).is_some());
        }
        assert!(counted > 500 && not_counted > 100);
        // A value has ten bytes at most.
        assert_eq!(count(&[&[0xff; 10][..], &[1]].concat()), None);
    }
}
