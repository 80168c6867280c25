//! The output of an import.

use rustc_hash::FxHashSet;

use crate::derived::SchedLog;
use crate::options::{Options, WantedArgs};
use crate::schema::{
    ArgsTable, PackageListRow, ProfilerSampleRow, TableId, TableSet, Tables, TraceImportLogsRow,
};
use crate::stats::{Stat, StatsTracker};
use crate::strings::{StringId, StringPool};
use crate::trackers::args::ArgSet;
use crate::trackers::callsites::{Callsites, Ticket};
use crate::trackers::waiting_args::WaitingArgs;

/// A request to a disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskRequest {
    /// The time at which it began.
    pub ts: i64,
    /// Its duration, 0 if its end is not known.
    pub dur: i64,
    /// The thread that sent it: often that of the kernel which writes later.
    pub thread: Option<u32>,
    /// The disk and the direction, as in the name of its slice.
    pub name: StringId,
    /// The bytes to read or to write.
    pub bytes: u64,
}

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
    /// The numbers of losses in the list: of missing switches, and of other data.
    unknown_times: usize,
    other_losses: usize,
    /// The numbers of switches of threads and of missing ones, by row of `cpu`.
    switches: Vec<(u64, u64)>,
    /// The requests to disks, in the order of their ends.
    pub(crate) disk_requests: Vec<DiskRequest>,
    /// The tables that are wanted. Others may stay empty.
    pub(crate) wanted: TableSet,
    args: WantedArgs,
    /// The current machine: a row of `machine`.
    pub(crate) machine: u32,
    /// The current file: a row of `trace_file`.
    pub(crate) trace_file: u32,
    /// Sets of arguments that are not in the table yet.
    pub(crate) waiting_args: WaitingArgs,
    pub(crate) callsites: Callsites,
    /// The packages in the table, by name and user.
    packages: FxHashSet<(StringId, i64)>,
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
    /// Switches of threads that the kernel left out without a report, as the next one tells, whose
    /// previous thread is not the next one of the one before.
    Switches {
        /// The CPU: `cpu.id`.
        ucpu: u32,
        /// The last time at which the running thread is known.
        from: i64,
        /// The thread that ran at the end: `thread.id`.
        thread: u32,
        /// The first event since `from` that shows this thread on the CPU, at the latest the end.
        since: i64,
    },
}

/// The number of switches of threads that are missing on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingSwitches {
    /// The CPU: `cpu.id`.
    pub ucpu: u32,
    /// The number of missing switches, if one is missing each time.
    pub missing: u64,
    /// The number of all switches, including these.
    pub of: u64,
}

/// The maximum number of recorded losses, apart from missing switches.
const MAX_LOSSES: usize = 1 << 14;

/// The maximum number of times with missing switches. Virtual machines may leave out a hundred
/// switches a second.
const MAX_UNKNOWN: usize = 1 << 19;

/// The maximum number of rows of `trace_import_logs`.
const MAX_LOGS: u32 = 1 << 16;

impl Store {
    /// Creates an empty store.
    pub(crate) fn new(options: &Options) -> Self {
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
            unknown_times: 0,
            other_losses: 0,
            switches: Vec::new(),
            disk_requests: Vec::new(),
            sched: SchedLog::default(),
            wanted: options.tables,
            args: options.args,
            machine: 0,
            trace_file: 0,
            waiting_args: WaitingArgs::new(options.threads),
            callsites: Callsites::new(options.threads),
            packages: FxHashSet::default(),
        }
    }

    /// Removes the missing switches that a loss explains.
    pub(crate) fn finish_losses(&mut self) {
        let of_kernel = |loss: &Loss| match loss.lost {
            Lost::KernelEvents { ucpu } => Some((ucpu, loss.ts)),
            Lost::Packets { .. } | Lost::Switches { .. } => None,
        };
        let mut known: Vec<_> = self.losses.iter().filter_map(of_kernel).collect();
        known.sort_unstable();
        let is_within = |cpu: Option<u32>, from: i64, to: i64| {
            let first = known.partition_point(|loss| *loss < (cpu, from));
            known.get(first).is_some_and(|loss| *loss <= (cpu, to))
        };
        let counts = &mut self.switches;
        self.losses.retain(|loss| {
            let Lost::Switches { ucpu, from, .. } = loss.lost else {
                return true;
            };
            let is_explained =
                is_within(Some(ucpu), from, loss.ts) || is_within(None, from, loss.ts);
            if is_explained && let Some(count) = counts.get_mut(ucpu as usize) {
                count.1 -= 1;
            }
            !is_explained
        });
    }

    /// Returns the numbers of missing switches of the CPUs where some are missing.
    pub(crate) fn missing_switches(&self) -> Vec<MissingSwitches> {
        let counts = (0..).zip(&self.switches);
        let broken = counts.filter(|(_, (_, missing))| *missing > 0);
        broken
            .map(|(ucpu, (switches, missing))| MissingSwitches {
                ucpu,
                missing: *missing,
                of: switches + missing,
            })
            .collect()
    }

    /// Adds the numbers of switches and of missing ones to the statistics.
    pub(crate) fn store_switches(&mut self) {
        for missing in self.missing_switches() {
            let cpus = &self.tables.cpu;
            let index = cpus.cpu().get(missing.ucpu).map_or(-1, i64::from);
            let value = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
            self.stats.set_machine(cpus.machine_id().get(missing.ucpu));
            self.stats
                .set_indexed(Stat::sched_switches, index, value(missing.of));
            let count = value(missing.missing);
            self.stats
                .set_indexed(Stat::sched_switches_missing, index, count);
        }
        self.stats.set_machine(self.machine);
    }

    /// Counts a switch of a CPU.
    #[inline]
    pub(crate) fn count_switch(&mut self, ucpu: u32) {
        self.switches_of(ucpu).0 += 1;
    }

    /// Counts a switch that is missing, in front of which there is another one.
    pub(crate) fn count_missing_switch(&mut self, ucpu: u32) {
        self.switches_of(ucpu).1 += 1;
    }

    #[inline]
    fn switches_of(&mut self, ucpu: u32) -> &mut (u64, u64) {
        let index = ucpu as usize;
        if self.switches.len() <= index {
            self.switches.resize(index + 1, (0, 0));
        }
        &mut self.switches[index]
    }

    /// Records a loss of data before this time.
    pub(crate) fn lost(&mut self, ts: i64, lost: Lost) {
        let (count, max) = match lost {
            Lost::Switches { .. } => (&mut self.unknown_times, MAX_UNKNOWN),
            Lost::Packets { .. } | Lost::KernelEvents { .. } => {
                (&mut self.other_losses, MAX_LOSSES)
            }
        };
        if *count < max {
            *count += 1;
            self.losses.push(Loss { ts, lost });
        }
    }

    /// Returns true if this table is wanted.
    #[inline]
    pub(crate) fn wants(&self, table: TableId) -> bool {
        self.wanted.has(table)
    }

    /// Returns true if all arguments are wanted.
    #[inline]
    pub(crate) fn wants_all_args(&self) -> bool {
        self.wants(TableId::args) && self.args == WantedArgs::All
    }

    /// Moves all waiting sets of arguments into the table.
    #[inline]
    pub(crate) fn store_args(&mut self) {
        if !self.waiting_args.is_empty() {
            self.waiting_args.flush(&mut self.tables);
        }
    }

    /// Adds the callsites of all callstacks to the table.
    pub(crate) fn store_callsites(&mut self) {
        self.callsites.flush(&mut self.tables);
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

    /// Adds a package, if it is new.
    pub(crate) fn add_package(&mut self, row: PackageListRow) {
        if self.packages.insert((row.package_name, row.uid)) {
            self.tables.package_list.push(row);
        }
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
