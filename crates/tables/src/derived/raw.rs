//! Raw events of the scheduler, and their arguments.

use std::io;
use std::ops::Range;

use super::Derive;
use super::filling::Filling;
use super::log::{Entry, SchedLog, columns, of_switch, of_wake};
use crate::column::Packed;
use crate::saved::{Reader, Saved, Writer};
use crate::schema::{Arg, ArgValue, FtraceEventRow, FtraceEventTable, TableId};
use crate::strings::{StringId, StringPool};

/// The numbers of arguments of a switch, and of a wake-up.
const SWITCH_ARGS: u32 = 7;
const WAKE_ARGS: u32 = 4;

/// The names of the events, and of their arguments in order.
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

impl Saved for Names {
    fn save(&self, writer: &mut Writer<'_>) -> io::Result<()> {
        let single = [self.sched_switch, self.sched_waking];
        for name in single.iter().chain(&self.switch).chain(&self.waking) {
            writer.number(name.raw().into());
        }
        Ok(())
    }

    fn load(reader: &mut Reader) -> io::Result<Self> {
        let mut name = || reader.small().map(StringId);
        let mut names = Self {
            sched_switch: name()?,
            sched_waking: name()?,
            switch: Default::default(),
            waking: Default::default(),
        };
        for target in names.switch.iter_mut().chain(&mut names.waking) {
            *target = name()?;
        }
        Ok(names)
    }
}

impl SchedLog {
    /// Returns the id of the first set of arguments that is derived from the log, if any is.
    pub(crate) fn first_args(&self) -> Option<u32> {
        self.first_args
    }

    /// Returns the number of arguments that are derived from the log.
    pub(crate) fn args(&self) -> u32 {
        let all = self.first_args.and_then(|_| self.count_args());
        all.unwrap_or(0)
    }

    /// Returns the number of arguments that would be derived; `None` if there are too many.
    pub(super) fn count_args(&self) -> Option<u32> {
        let [switches, wakes] = self.raw;
        let of_switches = switches.checked_mul(SWITCH_ARGS)?;
        of_switches.checked_add(wakes.checked_mul(WAKE_ARGS)?)
    }
}

impl Derive for FtraceEventTable {
    const ID: TableId = TableId::ftrace_event;

    fn max_rows(log: &SchedLog) -> usize {
        log.raw.iter().map(|count| *count as usize).sum()
    }

    fn derive(log: &SchedLog, rows: &Self) -> Self {
        let mut table = Self::packing();
        let Some(names) = log.names else {
            // No row is derived from the log.
            for row in 0..rows.len() {
                rows.row(row).map(|row| table.push(row));
            }
            table.pack();
            return table;
        };
        let mut table = Filling::new(table);
        // The argument sets of switches come first, then those of wake-ups.
        let mut switch_set = log.first_args;
        let mut wake_set = log.first_args.map(|set| set + log.raw[0] * SWITCH_ARGS);
        let take = |set: &mut Option<u32>, args| {
            let taken = *set;
            *set = taken.map(|set| set + args);
            taken
        };
        let mut copied = 0;
        const SWITCH: u32 = columns(&[of_switch::UCPU, of_switch::PREV]);
        const WAKE: u32 = columns(&[of_wake::WAKER, of_wake::UCPU, of_wake::FLAGS]);
        for entry in log.entries::<SWITCH, WAKE>() {
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
        let mut table = table.finish();
        table.pack();
        table
    }
}

/// The arguments of switches and wake-ups, which are columns of the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawArgs<'a> {
    log: &'a SchedLog,
    names: &'a Names,
    first: u32,
}

/// The meaning of an integer in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Text,
    Number,
    /// A thread. The argument is its tid.
    Thread,
}

/// The columns of the arguments, in order.
const OF_SWITCH: [(usize, Meaning); SWITCH_ARGS as usize] = [
    (of_switch::PREV_COMM, Meaning::Text),
    (of_switch::PREV, Meaning::Thread),
    (of_switch::PREV_PRIO, Meaning::Number),
    (of_switch::STATE, Meaning::Number),
    (of_switch::NEXT_COMM, Meaning::Text),
    (of_switch::NEXT, Meaning::Thread),
    (of_switch::NEXT_PRIO, Meaning::Number),
];
const OF_WAKE: [(usize, Meaning); WAKE_ARGS as usize] = [
    (of_wake::COMM, Meaning::Text),
    (of_wake::UTID, Meaning::Thread),
    (of_wake::PRIO, Meaning::Number),
    (of_wake::TARGET_CPU, Meaning::Number),
];

impl<'a> RawArgs<'a> {
    /// Returns the arguments of a log, if it has any.
    #[inline]
    pub(crate) fn of(log: &'a SchedLog) -> Option<Self> {
        Some(Self {
            log,
            names: log.names.as_ref()?,
            first: log.first_args?,
        })
    }

    /// Returns the arguments of all switches, and of all wake-ups.
    #[inline]
    pub(crate) fn parts(&self) -> [RawPart<'a>; 2] {
        let Self { log, names, first } = *self;
        let start = log.raw[0] * SWITCH_ARGS;
        let switches = RawPart {
            log,
            start: 0,
            set: first,
            names: &names.switch,
            columns: &log.switches[1],
            args: &OF_SWITCH,
        };
        let wakes = RawPart {
            log,
            start,
            set: first + start,
            names: &names.waking,
            columns: &log.wakes[1],
            args: &OF_WAKE,
        };
        [switches, wakes]
    }

    /// Returns an argument and its set, by the index among all arguments.
    #[inline]
    pub(crate) fn arg(&self, index: u32) -> (u32, Arg) {
        let [switches, wakes] = self.parts();
        let part = if index < wakes.start { switches } else { wakes };
        let (index, args) = (index - part.start, part.args());
        let (event, number) = (index / args, index % args);
        let arg = part.arg(event as usize, number as usize);
        (part.set + event * args, arg)
    }

    /// Returns the indexes of the arguments of a set. Empty if there is no such set.
    pub(crate) fn set(&self, id: u32) -> Range<u32> {
        for part in self.parts() {
            let index = id.checked_sub(part.set);
            if let Some(index) = index.filter(|index| *index < part.rows()) {
                let is_set = index.is_multiple_of(part.args());
                let index = part.start + index;
                return if is_set {
                    index..index + part.args()
                } else {
                    0..0
                };
            }
        }
        0..0
    }
}

/// The arguments of all events of one kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawPart<'a> {
    log: &'a SchedLog,
    /// The index of the first argument among the arguments of both kinds.
    pub(crate) start: u32,
    /// The id of the first set.
    pub(crate) set: u32,
    names: &'a [StringId],
    columns: &'a [Packed],
    args: &'static [(usize, Meaning)],
}

impl RawPart<'_> {
    /// Returns the number of arguments of an event.
    #[inline]
    pub(crate) fn args(&self) -> u32 {
        self.args.len() as u32
    }

    /// Returns the number of arguments of all events.
    #[inline]
    pub(crate) fn rows(&self) -> u32 {
        self.columns[0].len() as u32 * self.args()
    }

    /// Returns true if an argument is a text. Others are integers.
    #[inline]
    pub(crate) fn is_text(&self, number: usize) -> bool {
        self.args[number].1 == Meaning::Text
    }

    /// Returns the values of an argument, one for each of these events.
    pub(crate) fn values(&self, number: usize, events: Range<usize>) -> Vec<i64> {
        let (index, meaning) = self.args[number];
        let mut values = Vec::with_capacity(events.len());
        self.columns[index].read(events, &mut values);
        if meaning == Meaning::Thread {
            for value in &mut values {
                *value = self.log.thread(*value as u32).tid.into();
            }
        }
        values
    }

    /// Returns an argument of an event.
    #[inline]
    pub(crate) fn arg(&self, event: usize, number: usize) -> Arg {
        let (index, meaning) = self.args[number];
        let value = self.columns[index].get(event);
        let value = match meaning {
            Meaning::Text => ArgValue::Text(StringId(value as u32)),
            Meaning::Number => ArgValue::Int(value),
            Meaning::Thread => ArgValue::Int(self.log.thread(value as u32).tid.into()),
        };
        let name = self.names[number];
        Arg {
            flat_key: name,
            key: name,
            value,
        }
    }
}
