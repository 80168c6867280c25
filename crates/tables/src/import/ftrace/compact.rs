//! Context switches and wake-ups in compact form: columns, with times as differences.
//!
//! They wait for their time as they are, as events of their own would take four times the memory.

use ferretto_proto::fields::ftrace_event_bundle::compact_sched as field;
use ferretto_wire::{Field, Fields, Value, Varints, decode_varint};

use super::{Context, Out};
use crate::import::arena::Span;
use crate::import::event::{CompactKind, CompactSwitch, CompactWaking, Event};
use crate::import::sorter::Stream;
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::clock::ClockId;

/// Reads the compact form.
#[derive(Debug, Default)]
pub(super) struct Compact {
    /// The number of names of the bundle at hand.
    count: usize,
    /// The bundle of each CPU of which names were read last, and these: it has wake-ups as well as
    /// switches.
    names: Vec<(Span, Vec<StringId>)>,
}

/// Names of one bundle beyond this number are left out.
const MAX_NAMES: usize = 1 << 16;

/// Events of a bundle beyond this number become events of their own at once, so that memory is
/// taken when it is looked at.
const MAX_EVENTS: u32 = 1 << 16;

/// The packed columns, by the number of the field.
type Columns<'a> = [&'a [u8]; 13];

/// The extent of the events of a kind.
#[derive(Debug)]
struct Extent {
    first: i64,
    last: i64,
    count: u32,
    /// Times ascend and are not negative.
    is_sorted: bool,
    /// All columns were of one length and well-formed.
    is_whole: bool,
}

impl Compact {
    /// Puts the events of a `CompactSched` into the sorter.
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
            // Times that need not be converted are the same when they are read again.
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

    /// Hands all events of a kind to `each`, with their times.
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

    /// Reads when events happened, and if all of them can be read.
    fn extent(&self, kind: CompactKind, columns: &Columns<'_>) -> Extent {
        let mut extent = Extent {
            first: 0,
            last: 0,
            count: 0,
            is_sorted: true,
            is_whole: true,
        };
        let names = self.count as u64;
        let mut time = 0_i64;
        let of_kind = kind.columns().map(|number| columns[number as usize]);
        extent.is_whole = each(of_kind, |[ahead, .., name]| {
            if name >= names {
                return false;
            }
            time = time.wrapping_add(ahead as i64);
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

/// Hands all events of a kind to `row`, with their times.
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
    /// Returns the columns that all events have. The first one is the time, the last one the name.
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

/// Finds the columns, and hands the names to `name`.
fn columns<'a>(bytes: &'a [u8], mut name: impl FnMut(&'a [u8])) -> Columns<'a> {
    let mut columns = Columns::default();
    for Field { number, value } in Fields::new(bytes).map_while(Result::ok) {
        match (number, value) {
            (field::INTERN_TABLE, Value::Bytes(text)) => name(text),
            (number @ 1..=12, Value::Bytes(packed)) => columns[number as usize] = packed,
            _ => {}
        }
    }
    columns
}

fn varints(packed: &[u8]) -> Varints<'_> {
    let field = Field {
        number: 1,
        value: Value::Bytes(packed),
    };
    field.as_varints()
}

/// Rows of columns that are decoded together.
const ROWS: usize = 128;

/// Hands the rows of packed columns to `row` as long as it wants more. Returns true if all columns
/// were of one length, well formed, and taken.
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

/// Takes numbers off a packed column, as many as there is room for, and returns how many there
/// were.
#[inline]
fn decode(column: &mut &[u8], values: &mut [u64; ROWS]) -> usize {
    for (place, value) in values.iter_mut().enumerate() {
        match decode_varint(column) {
            Some((number, length)) => {
                *value = number;
                *column = column.get(length..).unwrap_or_default();
            }
            None => {
                *column = &[];
                return place;
            }
        }
    }
    ROWS
}
