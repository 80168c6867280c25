//! The output of an import.

use crate::derived::SchedLog;
use crate::schema::{ArgsTable, ProfilerSampleRow, TableId, TableSet, Tables, TraceImportLogsRow};
use crate::stats::{Stat, StatsTracker};
use crate::strings::StringPool;
use crate::trackers::args::ArgSet;
use crate::trackers::callsites::{Callsites, Ticket};
use crate::trackers::waiting_args::WaitingArgs;

/// The tables, texts and statistics of an import.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) tables: Tables,
    pub(crate) strings: StringPool,
    pub(crate) stats: StatsTracker,
    /// The log from which tables of the scheduler are computed.
    pub(crate) sched: SchedLog,
    /// The losses, in the order of the file.
    pub(crate) losses: Vec<Loss>,
    /// The tables that are wanted. Others may stay empty.
    pub(crate) wanted: TableSet,
    /// The current machine: a row of `machine`.
    pub(crate) machine: u32,
    /// The current file: a row of `trace_file`.
    pub(crate) trace_file: u32,
    /// Sets of arguments that are not in the table yet.
    pub(crate) waiting_args: WaitingArgs,
    pub(crate) callsites: Callsites,
}

/// A loss of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// The time of the first known event after the loss or of the last one before it, in
    /// nanoseconds.
    pub ts: i64,
    /// The data that was lost.
    pub lost: Lost,
}

/// The data that was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// Packets of a sequence.
    Packets {
        /// The id of the sequence in the file.
        sequence: u32,
    },
    /// Kernel events of a CPU.
    KernelEvents {
        /// The CPU: `cpu.id`.
        ucpu: Option<u32>,
    },
}

/// The maximum number of recorded losses.
const MAX_LOSSES: usize = 1 << 14;

/// The maximum number of rows of `trace_import_logs`.
const MAX_LOGS: u32 = 1 << 16;

impl Store {
    /// Creates an empty store, filled by at most this number of threads.
    pub(crate) fn new(wanted: TableSet, threads: usize) -> Self {
        let mut strings = StringPool::default();
        let args = ArgsTable::new(&mut strings);
        Self {
            tables: Tables {
                args,
                ..Tables::default()
            },
            strings,
            stats: StatsTracker::default(),
            losses: Vec::new(),
            sched: SchedLog::default(),
            wanted,
            machine: 0,
            trace_file: 0,
            waiting_args: WaitingArgs::new(threads),
            callsites: Callsites::new(threads),
        }
    }

    /// Records a loss of data before this time.
    pub(crate) fn lost(&mut self, ts: i64, lost: Lost) {
        if self.losses.len() < MAX_LOSSES {
            self.losses.push(Loss { ts, lost });
        }
    }

    /// Returns true if this table is wanted.
    #[inline]
    pub(crate) fn wants(&self, table: TableId) -> bool {
        self.wanted.has(table)
    }

    /// Moves all waiting sets of arguments into the table.
    #[inline]
    pub(crate) fn store_args(&mut self) {
        if !self.waiting_args.is_empty() {
            self.waiting_args.settle(&mut self.tables);
        }
    }

    /// Adds the callsites of all callstacks to the table.
    pub(crate) fn store_callsites(&mut self) {
        self.callsites.settle(&mut self.tables);
    }

    /// Adds a sample. Its callsite is that of the callstack, if it has one.
    pub(crate) fn add_sample(&mut self, mut sample: ProfilerSampleRow, callstack: Option<Ticket>) {
        let samples = &mut self.tables.profiler_sample;
        let Some(ticket) = callstack else {
            samples.push(sample);
            return;
        };
        let known = self.callsites.known(ticket);
        // An unknown callsite is replaced later.
        sample.callsite_id = Some(known.unwrap_or(0));
        let row = samples.push(sample);
        if known.is_none() {
            self.callsites.set_later(row, ticket);
        }
    }

    /// Returns the row of a callstack, with the outermost frame first. Frames that are too deep are
    /// cut; `None` if there are no frames.
    pub(crate) fn callstack(&mut self, frames: impl IntoIterator<Item = u32>) -> Option<u32> {
        self.callsites.callstack(&mut self.tables, frames)
    }

    /// Returns the memory of tables and texts in bytes.
    pub(crate) fn memory(&self) -> usize {
        let away = self.waiting_args.memory() + self.callsites.memory();
        self.tables.memory() + away + self.strings.memory() + self.sched.memory()
    }

    /// Sets the current machine.
    #[inline]
    pub(crate) fn set_machine(&mut self, machine: u32) {
        self.machine = machine;
        self.stats.set_machine(machine);
    }

    /// Counts an event with a time of the trace, and logs it.
    pub(crate) fn log(&mut self, stat: Stat, ts: Option<i64>, mut args: ArgSet) {
        self.stats.add(stat, 1);
        self.push_log(stat, ts, None, &mut args);
    }

    /// Counts an event at an offset in the file, and logs it.
    pub(crate) fn log_at(&mut self, stat: Stat, byte_offset: u64) {
        self.log_about(stat, byte_offset, ArgSet::default());
    }

    /// Counts an event at an offset in the file, and logs it with arguments.
    pub(crate) fn log_about(&mut self, stat: Stat, byte_offset: u64, mut args: ArgSet) {
        self.stats.add(stat, 1);
        self.push_log(stat, None, Some(byte_offset as i64), &mut args);
    }

    fn push_log(
        &mut self,
        stat: Stat,
        ts: Option<i64>,
        byte_offset: Option<i64>,
        args: &mut ArgSet,
    ) {
        if self.tables.trace_import_logs.len() >= MAX_LOGS {
            return;
        }
        let arg_set_id = args.finish(self);
        self.tables.trace_import_logs.push(TraceImportLogsRow {
            trace_id: self.trace_file,
            ts,
            byte_offset,
            stat_key: stat as i64,
            arg_set_id,
        });
    }
}
