//! Context switches and wake-ups in compact form: columns, with times as differences.
//!
//! They wait for their time as they are, as events of their own would take four times the memory.

use ferretto_proto::fields::ftrace_event_bundle::compact_sched as field;
use ferretto_wire::{Field, Fields, Value, Varints};

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
    /// The names of the bundle at hand, when they are needed.
    names: Vec<StringId>,
    /// The number of its names.
    count: usize,
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
        let mut has_names = false;
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
            if !std::mem::replace(&mut has_names, true) {
                self.columns_and_names(cx, bytes);
            }
            self.read(kind, &columns, cpu, |time, event| {
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
        bytes: &[u8],
        each: impl FnMut(i64, Event),
    ) {
        let columns = self.columns_and_names(cx, bytes);
        self.read(kind, &columns, cpu, each);
    }

    /// Finds the columns, and reads the names.
    fn columns_and_names<'a>(&mut self, cx: &mut Context, bytes: &'a [u8]) -> Columns<'a> {
        self.names.clear();
        let names = &mut self.names;
        columns(bytes, |name| {
            if names.len() < MAX_NAMES {
                names.push(cx.store.strings.intern_bytes(name));
            }
        })
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

    fn read(
        &self,
        kind: CompactKind,
        columns: &Columns<'_>,
        cpu: u16,
        mut row: impl FnMut(i64, Event),
    ) {
        let of_kind = kind.columns().map(|number| columns[number as usize]);
        let mut flags = varints(columns[field::WAKING_COMMON_FLAGS as usize]);
        let mut time = 0_i64;
        each(of_kind, |[ahead, one, two, prio, name]| {
            let Some(comm) = self.names.get(name as usize).copied() else {
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

/// Hands the rows of packed columns to `row` as long as it wants more. Returns true if all columns
/// were of one length, well formed, and taken.
#[inline]
fn each<const N: usize>(columns: [&[u8]; N], mut row: impl FnMut([u64; N]) -> bool) -> bool {
    let mut columns = columns.map(varints);
    loop {
        let mut values = [0; N];
        let mut count = 0;
        for (column, value) in columns.iter_mut().zip(&mut values) {
            if let Some(next) = column.next() {
                *value = next;
                count += 1;
            }
        }
        match count {
            0 => return true,
            count if count < N => return false,
            _ if !row(values) => return false,
            _ => {}
        }
    }
}
