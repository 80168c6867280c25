//! Compact context switches and wake-ups, which stand for many events.
//!
//! Bundles wait in the sorter as they are, since separate events would take four times the memory.

use ferretto_format::compact_sched::{CompactColumns, CompactExtent, CompactKind};

use super::{Context, Out};
use crate::import::arena::Span;
use crate::import::event::{CompactSwitch, CompactWaking, Event};
use crate::import::sorter::Stream;
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::clock::ClockId;

/// The reader of the compact form.
#[derive(Debug, Default)]
pub(super) struct Compact {
    /// The names of the last bundle of each CPU, which are used for its switches and its wake-ups.
    names: Vec<(Span, Vec<StringId>)>,
}

/// The maximum number of names of a bundle.
const MAX_NAMES: usize = 1 << 16;

/// The number of events from which a bundle is split into separate events at once, so that the
/// memory limit is checked in between.
const MAX_EVENTS: usize = 1 << 16;

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
        let mut count = 0;
        let columns = CompactColumns::read(bytes, |_| count = MAX_NAMES.min(count + 1), |_| ());
        for kind in [CompactKind::Switches, CompactKind::Wakings] {
            let extent = columns.extent(kind, count);
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
            let CompactExtent { first, last, .. } = extent;
            let times = (first.cast_signed(), last.cast_signed());
            let is_sorted = extent.is_sorted && times.0 >= 0 && times.1 >= 0;
            // Times without a conversion are the same when they are read again.
            let is_same = cx.clocks.trace_time(clock, times.0) == Ok(times.0)
                && clock == cx.clocks.trace_clock();
            if is_same && is_sorted && extent.is_whole && extent.count <= MAX_EVENTS {
                let event = Event::Compact { cpu, kind, span };
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
        let columns = CompactColumns::read(bytes, |_| (), |_| ());
        read(kind, &columns, names, cpu, each);
    }

    /// Returns the names of a bundle.
    fn names(&mut self, cx: &mut Context, cpu: u16, bytes: &[u8], span: Span) -> &[StringId] {
        let index = usize::from(cpu);
        if self.names.len() <= index {
            self.names.resize(index + 1, (Span::EMPTY, Vec::new()));
        }
        let (known, names) = &mut self.names[index];
        if *known != span {
            *known = span;
            names.clear();
            let add = |name| {
                if names.len() < MAX_NAMES {
                    names.push(cx.store.strings.intern_bytes(name));
                }
            };
            CompactColumns::read(bytes, add, |_| ());
        }
        names
    }
}

/// Calls `row` with all events of a kind and their times.
fn read(
    kind: CompactKind,
    columns: &CompactColumns<'_>,
    names: &[StringId],
    cpu: u16,
    mut row: impl FnMut(i64, Event),
) {
    let mut flags = columns.flags(kind);
    let mut time = 0_i64;
    columns.each(kind, |[ahead, one, two, prio, name]| {
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
