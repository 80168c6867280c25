//! Context switches and wake-ups in compact form: columns, with times as differences.

use ferretto_proto::fields::ftrace_event_bundle::compact_sched as field;
use ferretto_wire::{Field, Fields, Value, Varints};

use super::{Context, Out};
use crate::import::event::{CompactSwitch, CompactWaking, Event};
use crate::import::sorter::Stream;
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::clock::ClockId;

/// Memory that is used again for the next bundle.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    names: Vec<StringId>,
}

/// Names of one bundle beyond this number are left out.
const MAX_NAMES: usize = 1 << 16;

/// Puts the events of a `CompactSched` into the sorter.
pub(super) fn tokenize(
    scratch: &mut Scratch,
    cx: &mut Context,
    cpu: u32,
    clock: ClockId,
    bytes: &[u8],
    out: &mut Out<'_>,
) {
    scratch.names.clear();
    let mut columns: [Option<&[u8]>; 13] = [None; 13];
    for Field { number, value } in Fields::new(bytes).map_while(Result::ok) {
        match (number, value) {
            (field::INTERN_TABLE, Value::Bytes(name)) if scratch.names.len() < MAX_NAMES => {
                scratch.names.push(cx.store.strings.intern_bytes(name));
            }
            (number @ 1..=12, Value::Bytes(packed)) => columns[number as usize] = Some(packed),
            _ => {}
        }
    }
    let column = |number: u32| columns[number as usize].unwrap_or_default();
    let switches = [
        field::SWITCH_TIMESTAMP,
        field::SWITCH_PREV_STATE,
        field::SWITCH_NEXT_PID,
        field::SWITCH_NEXT_PRIO,
        field::SWITCH_NEXT_COMM_INDEX,
    ];
    let mut time = 0_i64;
    let is_whole = each(switches.map(column), |[ahead, state, pid, prio, name]| {
        let Some(comm) = scratch.names.get(name as usize).copied() else {
            return false;
        };
        time = time.wrapping_add(ahead as i64);
        if let Ok(ts) = cx.clocks.trace_time(clock, time) {
            let event = Event::Switch(CompactSwitch {
                cpu: cpu as u16,
                prev_state: state as i32,
                next_pid: pid as i32,
                next_prio: prio as i32,
                next_comm: comm,
            });
            out.push(&mut cx.store, Stream::Switches(cpu), ts, event);
        }
        true
    });
    let wakings = [
        field::WAKING_TIMESTAMP,
        field::WAKING_PID,
        field::WAKING_TARGET_CPU,
        field::WAKING_PRIO,
        field::WAKING_COMM_INDEX,
    ];
    let mut flags = varints(column(field::WAKING_COMMON_FLAGS));
    let mut time = 0_i64;
    let are_whole = each(wakings.map(column), |[ahead, pid, target, prio, name]| {
        let Some(comm) = scratch.names.get(name as usize).copied() else {
            return false;
        };
        time = time.wrapping_add(ahead as i64);
        let common_flags = flags.next().unwrap_or(0) as u16;
        if let Ok(ts) = cx.clocks.trace_time(clock, time) {
            let event = Event::Waking(CompactWaking {
                cpu: cpu as u16,
                target_cpu: target as u16,
                prio: prio as u16,
                common_flags,
                pid: pid as i32,
                comm,
            });
            out.push(&mut cx.store, Stream::Wakings(cpu), ts, event);
        }
        true
    });
    for _ in [is_whole, are_whole].iter().filter(|is_whole| !**is_whole) {
        let stat = Stat::compact_sched_has_parse_errors;
        cx.store.stats.add(stat, 1);
    }
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
