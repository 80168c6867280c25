//! All that an import fills.

use crate::derived::SchedLog;
use crate::schema::{ArgsTable, TableId, TableSet, Tables, TraceImportLogsRow};
use crate::stats::{Stat, StatsTracker};
use crate::strings::StringPool;
use crate::trackers::args::ArgSet;

/// The tables, texts and numbers that an import fills.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) tables: Tables,
    pub(crate) strings: StringPool,
    pub(crate) stats: StatsTracker,
    /// The log that tables of the scheduler are computed from.
    pub(crate) sched: SchedLog,
    /// The places where data was lost, in the order of the file.
    pub(crate) losses: Vec<Loss>,
    /// The tables that are wanted. Others may be left empty.
    pub(crate) wanted: TableSet,
    /// The machine of the packet or event at hand: a row of `machine`.
    pub(crate) machine: u32,
    /// The file that is read: a row of `trace_file`.
    pub(crate) trace_file: u32,
}

/// A place in the trace where data was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// The time before or behind it at which something is known, in nanoseconds.
    pub ts: i64,
    /// The data that was lost.
    pub lost: Lost,
}

/// The data that was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// Packets of a sequence.
    Packets {
        /// The number of the sequence in the file.
        sequence: u32,
    },
    /// Kernel events of a CPU.
    KernelEvents {
        /// The CPU: `cpu.id`.
        ucpu: Option<u32>,
    },
}

/// Losses beyond this number are not told apart.
const MAX_LOSSES: usize = 1 << 14;

/// Rows of `trace_import_logs` beyond this number are left out.
const MAX_LOGS: u32 = 1 << 16;

impl Store {
    /// Returns one without rows.
    pub(crate) fn new(wanted: TableSet) -> Self {
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
        }
    }

    /// Notes that data was lost before this time.
    pub(crate) fn lost(&mut self, ts: i64, lost: Lost) {
        if self.losses.len() < MAX_LOSSES {
            self.losses.push(Loss { ts, lost });
        }
    }

    /// Returns true if this table is to be filled.
    #[inline]
    pub(crate) fn wants(&self, table: TableId) -> bool {
        self.wanted.has(table)
    }

    /// Returns the memory that tables and texts take, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.tables.memory() + self.strings.memory() + self.sched.memory()
    }

    /// Reads and parses for this machine from now on.
    #[inline]
    pub(crate) fn set_machine(&mut self, machine: u32) {
        self.machine = machine;
        self.stats.set_machine(machine);
    }

    /// Counts something at a time in the trace, and logs it.
    pub(crate) fn log(&mut self, stat: Stat, ts: Option<i64>, mut args: ArgSet) {
        self.stats.add(stat, 1);
        self.push_log(stat, ts, None, &mut args);
    }

    /// Counts something at a place in the file, and logs it.
    pub(crate) fn log_at(&mut self, stat: Stat, byte_offset: u64) {
        self.log_about(stat, byte_offset, ArgSet::default());
    }

    /// Counts something at a place in the file, and logs it with arguments.
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
