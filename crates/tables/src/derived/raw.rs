//! Events of the scheduler as the kernel wrote them, and their arguments.

use super::Derive;
use super::log::{Entry, SchedLog};
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
        let mut table = Self::default();
        let Some(names) = log.names else {
            // All rows are those that do not follow from the log.
            for row in 0..rows.len() {
                rows.row(row).map(|row| table.push(row));
            }
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
        table.shrink();
        table
    }
}

/// The arguments of switches and wake-ups.
#[derive(Debug)]
pub(crate) struct RawArgs {
    names: Names,
    first: u32,
    switches: Vec<SwitchArgs>,
    wakes: Vec<WakeArgs>,
}

#[derive(Debug)]
struct SwitchArgs {
    prev_comm: StringId,
    prev_tid: u32,
    prev_prio: i32,
    prev_state: i64,
    next_comm: StringId,
    next_tid: u32,
    next_prio: i32,
}

#[derive(Debug)]
struct WakeArgs {
    comm: StringId,
    tid: u32,
    prio: u16,
    target_cpu: u16,
}

impl RawArgs {
    /// Reads the arguments from a log that has any.
    pub(crate) fn read(log: &SchedLog) -> Option<Self> {
        let mut args = Self {
            names: log.names?,
            first: log.first_args?,
            switches: Vec::with_capacity(log.raw[0] as usize),
            wakes: Vec::with_capacity(log.raw[1] as usize),
        };
        for entry in log.entries() {
            match entry {
                Entry::Switch(switch) if switch.is_raw => args.switches.push(SwitchArgs {
                    prev_comm: switch.prev_comm,
                    prev_tid: log.thread(switch.prev).tid,
                    prev_prio: switch.prev_prio,
                    prev_state: switch.state.0,
                    next_comm: switch.next_comm,
                    next_tid: log.thread(switch.next).tid,
                    next_prio: switch.next_prio,
                }),
                Entry::Wake(wake) => args.wakes.extend(wake.raw.map(|raw| WakeArgs {
                    comm: raw.comm,
                    tid: log.thread(wake.utid).tid,
                    prio: raw.prio,
                    target_cpu: raw.target_cpu,
                })),
                _ => {}
            }
        }
        Some(args)
    }

    /// Returns the memory that those of a log take, in bytes.
    pub(crate) fn memory_of(log: &SchedLog) -> usize {
        let [switches, wakes] = log.raw.map(|count| count as usize);
        switches * size_of::<SwitchArgs>() + wakes * size_of::<WakeArgs>()
    }

    /// Returns the memory that they take, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.switches.capacity() * size_of::<SwitchArgs>()
            + self.wakes.capacity() * size_of::<WakeArgs>()
    }

    /// Returns the sets in the order of their numbers.
    pub(crate) fn sets(&self) -> impl Iterator<Item = (u32, Vec<Arg>)> {
        let wakes = self.first + self.switches.len() as u32 * SWITCH_ARGS;
        let switches = (self.first..).step_by(SWITCH_ARGS as usize);
        let switches = switches.zip(&self.switches);
        let wakes = (wakes..).step_by(WAKE_ARGS as usize).zip(&self.wakes);
        let switches = switches.map(|(set, args)| (set, self.of_switch(args)));
        switches.chain(wakes.map(|(set, args)| (set, self.of_wake(args))))
    }

    /// Returns the arguments of a set, none if there is no such set.
    pub(crate) fn set(&self, id: u32) -> Vec<Arg> {
        let Some(place) = id.checked_sub(self.first) else {
            return Vec::new();
        };
        let of_switches = self.switches.len() as u32 * SWITCH_ARGS;
        let (place, args) = match place.checked_sub(of_switches) {
            None => (place, SWITCH_ARGS),
            Some(place) => (place, WAKE_ARGS),
        };
        if !place.is_multiple_of(args) {
            return Vec::new();
        }
        let number = (place / args) as usize;
        match args {
            SWITCH_ARGS => self.switches.get(number).map(|args| self.of_switch(args)),
            _ => self.wakes.get(number).map(|args| self.of_wake(args)),
        }
        .unwrap_or_default()
    }

    fn of_switch(&self, args: &SwitchArgs) -> Vec<Arg> {
        let values = [
            ArgValue::Text(args.prev_comm),
            ArgValue::Int(args.prev_tid.into()),
            ArgValue::Int(args.prev_prio.into()),
            ArgValue::Int(args.prev_state),
            ArgValue::Text(args.next_comm),
            ArgValue::Int(args.next_tid.into()),
            ArgValue::Int(args.next_prio.into()),
        ];
        let names = self.names.switch.iter().zip(values);
        names.map(|(name, value)| arg(*name, value)).collect()
    }

    fn of_wake(&self, args: &WakeArgs) -> Vec<Arg> {
        let values = [
            ArgValue::Text(args.comm),
            ArgValue::Int(args.tid.into()),
            ArgValue::Int(args.prio.into()),
            ArgValue::Int(args.target_cpu.into()),
        ];
        let names = self.names.waking.iter().zip(values);
        names.map(|(name, value)| arg(*name, value)).collect()
    }
}

fn arg(name: StringId, value: ArgValue) -> Arg {
    Arg {
        flat_key: name,
        key: name,
        value,
    }
}
