//! Events of the scheduler as the kernel wrote them, and their arguments.

use std::array;
use std::ops::Range;

use super::Derive;
use super::log::{Entry, SchedLog};
use crate::column::Packed;
use crate::schema::{Arg, ArgValue, FtraceEventRow, FtraceEventTable, TableId};
use crate::strings::{StringId, StringPool};

/// The arguments of a switch, and of a wake-up.
const SWITCH_ARGS: u32 = 7;
const WAKE_ARGS: u32 = 4;

/// Names of the events, and of their arguments in order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Names {
    sched_switch: StringId,
    switch: [StringId; SWITCH_ARGS as usize],
    sched_waking: StringId,
    waking: [StringId; WAKE_ARGS as usize],
}

impl Names {
    #[cold]
    pub(super) fn new(strings: &mut StringPool) -> Self {
        let switch = [
            "prev_comm",
            "prev_pid",
            "prev_prio",
            "prev_state",
            "next_comm",
            "next_pid",
            "next_prio",
        ];
        let waking = ["comm", "pid", "prio", "target_cpu"];
        Self {
            sched_switch: strings.intern("sched_switch"),
            switch: switch.map(|name| strings.intern(name)),
            sched_waking: strings.intern("sched_waking"),
            waking: waking.map(|name| strings.intern(name)),
        }
    }
}

impl SchedLog {
    /// Returns the number of arguments that follow from it.
    pub(crate) fn args(&self) -> u32 {
        let all = self.first_args.and_then(|_| self.count_args());
        all.unwrap_or(0)
    }

    /// Returns the number of arguments that would follow from it; `None` if they are too many.
    pub(super) fn count_args(&self) -> Option<u32> {
        let [switches, wakes] = self.raw;
        let of_switches = switches.checked_mul(SWITCH_ARGS)?;
        of_switches.checked_add(wakes.checked_mul(WAKE_ARGS)?)
    }
}

impl Derive for FtraceEventTable {
    const ID: TableId = TableId::ftrace_event;

    fn most_rows(log: &SchedLog) -> usize {
        log.raw.iter().map(|count| *count as usize).sum()
    }

    fn derive(log: &SchedLog, rows: &Self) -> Self {
        let mut table = Self::packing();
        let Some(names) = log.names else {
            // All rows are those that do not follow from the log.
            for row in 0..rows.len() {
                rows.row(row).map(|row| table.push(row));
            }
            table.pack();
            return table;
        };
        // Sets of switches come first, then those of wake-ups.
        let mut switch_set = log.first_args;
        let mut wake_set = log.first_args.map(|set| set + log.raw[0] * SWITCH_ARGS);
        let take = |set: &mut Option<u32>, args| {
            let taken = *set;
            *set = taken.map(|set| set + args);
            taken
        };
        let mut copied = 0;
        for entry in log.entries() {
            match entry {
                Entry::Switch(switch) if switch.is_raw => {
                    table.push(FtraceEventRow {
                        ts: switch.ts,
                        name: names.sched_switch,
                        utid: switch.prev,
                        arg_set_id: take(&mut switch_set, SWITCH_ARGS),
                        common_flags: 0,
                        ucpu: switch.ucpu,
                    });
                }
                Entry::Wake(wake) => {
                    if let Some(raw) = wake.raw {
                        table.push(FtraceEventRow {
                            ts: wake.ts,
                            name: names.sched_waking,
                            utid: wake.waker,
                            arg_set_id: take(&mut wake_set, WAKE_ARGS),
                            common_flags: raw.common_flags.into(),
                            ucpu: raw.ucpu,
                        });
                    }
                }
                Entry::Rows([_, _, count]) => {
                    for row in copied..copied + count {
                        rows.row(row).map(|row| table.push(row));
                    }
                    copied += count;
                }
                _ => {}
            }
        }
        for row in copied..rows.len() {
            rows.row(row).map(|row| table.push(row));
        }
        table.pack();
        table
    }
}

/// The arguments of switches and wake-ups.
#[derive(Debug)]
pub(crate) struct RawArgs {
    names: Names,
    first: u32,
    /// A column for each argument, which has a row for each event.
    switches: [Packed; SWITCH_ARGS as usize],
    wakes: [Packed; WAKE_ARGS as usize],
}

/// The bytes of the arguments of a switch and of a wake-up, if nothing is packed.
const SWITCH_BYTES: usize = 6 * 4 + 8;
const WAKE_BYTES: usize = 4 + 4 + 2 + 2;

impl RawArgs {
    /// Reads the arguments from a log that has any.
    pub(crate) fn read(log: &SchedLog) -> Option<Self> {
        let (names, first) = (log.names?, log.first_args?);
        let mut switches: [Packed; SWITCH_ARGS as usize] = array::from_fn(|_| Packed::default());
        let mut wakes: [Packed; WAKE_ARGS as usize] = array::from_fn(|_| Packed::default());
        for entry in log.entries() {
            match entry {
                Entry::Switch(switch) if switch.is_raw => {
                    let numbers = [
                        switch.prev_comm.raw().into(),
                        log.thread(switch.prev).tid.into(),
                        switch.prev_prio.into(),
                        switch.state.0,
                        switch.next_comm.raw().into(),
                        log.thread(switch.next).tid.into(),
                        switch.next_prio.into(),
                    ];
                    push(&mut switches, numbers);
                }
                Entry::Wake(wake) => {
                    if let Some(raw) = wake.raw {
                        let numbers = [
                            raw.comm.raw().into(),
                            log.thread(wake.utid).tid.into(),
                            raw.prio.into(),
                            raw.target_cpu.into(),
                        ];
                        push(&mut wakes, numbers);
                    }
                }
                _ => {}
            }
        }
        switches.iter_mut().for_each(Packed::shrink);
        wakes.iter_mut().for_each(Packed::shrink);
        Some(Self {
            names,
            first,
            switches,
            wakes,
        })
    }

    /// Returns the memory that those of a log take at most, in bytes.
    pub(crate) fn memory_of(log: &SchedLog) -> usize {
        let [switches, wakes] = log.raw.map(|count| count as usize);
        switches * SWITCH_BYTES
            + wakes * WAKE_BYTES
            + SWITCH_ARGS as usize * Packed::overhead(switches)
            + WAKE_ARGS as usize * Packed::overhead(wakes)
    }

    /// Returns the memory that they take, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.switches
            .iter()
            .chain(&self.wakes)
            .map(Packed::memory)
            .sum()
    }

    /// Returns the events of a kind: switches, and wake-ups behind them.
    #[inline]
    pub(crate) fn parts(&self) -> [RawPart<'_>; 2] {
        let start = self.switches[0].len() as u32 * SWITCH_ARGS;
        let switches = RawPart {
            start: 0,
            set: self.first,
            names: &self.names.switch,
            columns: &self.switches,
            texts: 1 | 1 << 4,
        };
        let wakes = RawPart {
            start,
            set: self.first + start,
            names: &self.names.waking,
            columns: &self.wakes,
            texts: 1,
        };
        [switches, wakes]
    }

    /// Returns the set that an argument is in, and the argument, by its place among all of them.
    #[inline]
    pub(crate) fn arg(&self, place: u32) -> (u32, Arg) {
        let [switches, wakes] = self.parts();
        let part = if place < wakes.start { switches } else { wakes };
        let (place, args) = (place - part.start, part.args());
        let (event, number) = (place / args, place % args);
        let arg = part.arg(event as usize, number as usize);
        (part.set + event * args, arg)
    }

    /// Returns the arguments of a set by their places, none if there is no such set.
    pub(crate) fn set(&self, id: u32) -> Range<u32> {
        for part in self.parts() {
            let place = id.checked_sub(part.set);
            if let Some(place) = place.filter(|place| *place < part.rows()) {
                let is_set = place.is_multiple_of(part.args());
                let place = part.start + place;
                return if is_set {
                    place..place + part.args()
                } else {
                    0..0
                };
            }
        }
        0..0
    }
}

/// The arguments of all events of a kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawPart<'a> {
    /// The place of the first one among the arguments of both kinds.
    pub(crate) start: u32,
    /// The number of the first set.
    pub(crate) set: u32,
    names: &'a [StringId],
    columns: &'a [Packed],
    /// A bit for each argument: 1 if it is a text.
    texts: u8,
}

impl RawPart<'_> {
    /// Returns the number of arguments of an event.
    #[inline]
    pub(crate) fn args(&self) -> u32 {
        self.names.len() as u32
    }

    /// Returns the number of arguments of all events.
    #[inline]
    pub(crate) fn rows(&self) -> u32 {
        self.columns[0].len() as u32 * self.args()
    }

    /// Returns true if an argument is a text. Others are integers.
    #[inline]
    pub(crate) fn is_text(&self, number: usize) -> bool {
        self.texts >> number & 1 != 0
    }

    /// Returns the values of an argument, one for each event.
    pub(crate) fn values(&self, number: usize) -> &Packed {
        &self.columns[number]
    }

    /// Returns an argument of an event.
    #[inline]
    pub(crate) fn arg(&self, event: usize, number: usize) -> Arg {
        let value = self.columns[number].get(event);
        let value = match self.is_text(number) {
            true => ArgValue::Text(StringId(value as u32)),
            false => ArgValue::Int(value),
        };
        let name = self.names[number];
        Arg {
            flat_key: name,
            key: name,
            value,
        }
    }
}

#[inline]
fn push<const N: usize>(columns: &mut [Packed; N], numbers: [i64; N]) {
    for (column, number) in columns.iter_mut().zip(numbers) {
        column.push(number);
    }
}
