//! The tables, declared once each: name, columns, their types and what they mean.

mod args;
mod bookkeeping;
mod entities;
mod events;
mod profiles;
mod reference;
mod tracks;

use std::fmt;
use std::sync::Arc;

pub use self::args::{Arg, ArgTypes, ArgValue, ArgsTable};
pub use self::bookkeeping::*;
pub use self::entities::*;
pub use self::events::*;
pub use self::profiles::*;
pub use self::reference::reference;
pub use self::tracks::*;

use crate::derived::{Derived, SchedLog};
use crate::table::{Table, TableSpec};

/// Declares the tables of a trace.
macro_rules! tables {
    ($( $(#[doc = $doc:literal])+ $field:ident: $table:ident $(in $wrapper:ident)?, )+) => {
        /// The tables of a trace.
        #[derive(Debug, Default)]
        pub struct Tables {
            $( $(#[doc = $doc])+ pub $field: wrapped!($table $($wrapper)?), )+
        }

        /// Names a table of a trace.
        #[allow(non_camel_case_types)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum TableId {
            $( #[doc = concat!("See [`Tables::", stringify!($field), "`].")] $field, )+
        }

        impl TableId {
            /// All tables, in the order of their declaration.
            pub const ALL: &[Self] = &[$( Self::$field, )+];

            /// Returns the name and columns of the table.
            pub fn spec(self) -> &'static TableSpec {
                match self {
                    $( Self::$field => const { &$table::SPEC }, )+
                }
            }
        }

        impl Tables {
            /// Returns a table.
            pub fn table(&self, id: TableId) -> &dyn Table {
                match id {
                    $( TableId::$field => &self.$field, )+
                }
            }

            /// Gives back memory that is kept for more rows.
            pub(crate) fn shrink(&mut self) {
                $( rows!(self.$field $($wrapper)?).shrink(); )+
            }
        }
    };
}

macro_rules! wrapped {
    ($table:ident) => {
        $table
    };
    ($table:ident $wrapper:ident) => {
        $wrapper<$table>
    };
}

macro_rules! rows {
    ($tables:ident.$field:ident) => {
        $tables.$field
    };
    ($tables:ident.$field:ident $wrapper:ident) => {
        $tables.$field.rows
    };
}

tables! {
    /// Intervals on tracks.
    slice: SliceTable,
    /// Values of counters.
    counter: CounterTable,
    /// Values of states.
    state: StateTable,
    /// The times at which threads were on CPUs.
    sched_slice: SchedSliceTable in Derived,
    /// The states of threads.
    thread_state: ThreadStateTable in Derived,
    /// Wake-ups of threads that were awake.
    spurious_sched_wakeup: SpuriousSchedWakeupTable in Derived,
    /// Kernel events as they were written.
    ftrace_event: FtraceEventTable in Derived,
    /// Arrows between slices.
    flow: FlowTable,
    /// Lines of logs.
    logs: LogsTable,
    /// Callstacks of track events.
    track_event_callstacks: TrackEventCallstacksTable,
    /// File descriptors of processes.
    filedescriptor: FiledescriptorTable,
    /// Threads.
    thread: ThreadTable,
    /// Processes.
    process: ProcessTable,
    /// CPUs.
    cpu: CpuTable,
    /// Frequencies that CPUs can have.
    cpu_freq: CpuFreqTable,
    /// Graphics processors.
    gpu: GpuTable,
    /// Machines.
    machine: MachineTable,
    /// Names of interrupts.
    linux_interrupt_mapping: InterruptMappingTable,
    /// The rows that events happened on.
    track: TrackTable,
    /// Keys and values that belong to rows of other tables.
    args: ArgsTable,
    /// Facts about the trace.
    metadata: MetadataTable,
    /// The course of recording and import.
    stats: StatsTable,
    /// Clocks read at the same moments.
    clock_snapshot: ClockSnapshotTable,
    /// The files that the trace consists of.
    trace_file: TraceFileTable,
    /// Single events behind the numbers of `stats`.
    trace_import_logs: TraceImportLogsTable,
    /// Advice on what went wrong.
    trace_diagnostics: TraceDiagnosticsTable,
    /// First and last moment.
    trace_bounds: TraceBoundsTable,
    /// Files mapped by processes.
    stack_profile_mapping: StackProfileMappingTable,
    /// Functions at addresses.
    stack_profile_frame: StackProfileFrameTable,
    /// Frames and their callers.
    stack_profile_callsite: StackProfileCallsiteTable,
    /// Names from debug information.
    stack_profile_symbol: StackProfileSymbolTable,
    /// Tasks that are no threads.
    profiler_async_context: ProfilerAsyncContextTable,
    /// Threads, processes and tasks that were sampled.
    profiler_task_context: ProfilerTaskContextTable,
    /// CPUs and their modes at samples.
    profiler_execution_context: ProfilerExecutionContextTable,
    /// Recordings of samples.
    profiler_session: ProfilerSessionTable,
    /// Counters at samples.
    profiler_counter_set: ProfilerCounterSetTable,
    /// Samples.
    profiler_sample: ProfilerSampleTable,
    /// Priorities of sampled processes.
    stack_sample_extras: StackSampleExtrasTable,
    /// Files mapped during profiles.
    mmap_record: MmapRecordTable,
    /// Windows of heap profiles.
    heap_profile: HeapProfileTable,
    /// Allocations and frees of heap profiles.
    heap_profile_allocation: HeapProfileAllocationTable,
    /// Memory maps of processes.
    profiler_smaps: ProfilerSmapsTable,
    /// Profiles that have no timeline.
    aggregate_profile: AggregateProfileTable,
    /// Samples that have no timeline.
    aggregate_sample: AggregateSampleTable,
}

impl TableId {
    /// Returns the table with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter();
        all.find(|id| id.spec().name == name).copied()
    }
}

impl Tables {
    /// Returns the table with this name.
    pub fn by_name(&self, name: &str) -> Option<&dyn Table> {
        TableId::by_name(name).map(|id| self.table(id))
    }

    /// Computes tables from a log when they are asked for.
    pub(crate) fn attach(&mut self, log: &Arc<SchedLog>, wanted: TableSet) {
        if wanted.has(TableId::sched_slice) {
            self.sched_slice.attach(log);
        }
        if wanted.has(TableId::thread_state) {
            self.thread_state.attach(log);
        }
        if wanted.has(TableId::spurious_sched_wakeup) {
            self.spurious_sched_wakeup.attach(log);
        }
        if wanted.has(TableId::ftrace_event) {
            self.ftrace_event.attach(log);
        }
        self.args.attach(log);
    }

    /// Returns all tables, in the order of their declaration.
    pub fn all(&self) -> impl Iterator<Item = &dyn Table> {
        TableId::ALL.iter().map(|id| self.table(*id))
    }

    /// Returns the memory that all tables take, in bytes.
    pub fn memory(&self) -> usize {
        self.all().map(Table::memory).sum()
    }

    /// Returns the memory that all tables take at most when all of them were asked for, in bytes.
    pub fn most_memory(&self) -> usize {
        self.all().map(Table::most_memory).sum()
    }
}

/// A set of tables.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TableSet(u64);

const _: () = assert!(TableId::ALL.len() <= 64);

impl TableSet {
    /// The set of all tables.
    pub const ALL: Self = Self(u64::MAX);
    /// The set without tables.
    pub const NONE: Self = Self(0);

    /// Returns the set of these tables.
    pub const fn of(tables: &[TableId]) -> Self {
        let (mut set, mut at) = (0, 0);
        while at < tables.len() {
            set |= 1 << tables[at] as u8;
            at += 1;
        }
        Self(set)
    }

    /// Returns this set and the table.
    #[must_use]
    pub const fn with(self, table: TableId) -> Self {
        Self(self.0 | 1 << table as u8)
    }

    /// Returns this set without the table.
    #[must_use]
    pub const fn without(self, table: TableId) -> Self {
        Self(self.0 & !(1 << table as u8))
    }

    /// Returns the tables of both sets.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns true if the table is in the set.
    #[inline]
    pub const fn has(self, table: TableId) -> bool {
        self.0 >> table as u8 & 1 != 0
    }

    /// Returns true if any of these tables is in the set.
    pub const fn has_any(self, tables: Self) -> bool {
        self.0 & tables.0 != 0
    }
}

impl fmt::Debug for TableSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tables = TableId::ALL.iter().filter(|table| self.has(**table));
        f.debug_set().entries(tables).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_found_by_name() {
        let tables = Tables::default();
        let names: Vec<_> = tables.all().map(|table| table.spec().name).collect();
        for (name, id) in names.iter().zip(TableId::ALL) {
            assert_eq!(TableId::by_name(name), Some(*id));
            let table = tables.table(*id);
            assert_eq!(table.spec().name, *name);
            for place in 0..table.spec().columns.len() {
                assert!(table.column(place).expect("column").is_empty());
            }
            assert!(table.column(table.spec().columns.len()).is_none());
        }
        assert!(tables.by_name("nothing").is_none());
    }
}
