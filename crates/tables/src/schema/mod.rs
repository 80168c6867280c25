//! The declarations of all tables: names, columns, types and descriptions.

mod arg;
mod args;
mod bookkeeping;
mod entities;
mod events;
mod gpu;
mod heap_graphs;
mod profiles;
mod reference;
mod slots;
mod tracks;
mod windows;

use std::fmt;
use std::io;
use std::sync::Arc;

pub use self::arg::{Arg, ArgTypes, ArgValue};
pub use self::args::ArgsTable;
pub use self::bookkeeping::*;
pub use self::entities::*;
pub use self::events::*;
pub use self::gpu::*;
pub use self::heap_graphs::*;
pub use self::profiles::*;
pub use self::reference::reference;
pub use self::tracks::*;
pub use self::windows::*;

use crate::derived::{Derived, SchedLog};
use crate::saved::{Reader, Saved, Writer};
use crate::table::{Table, TableSpec};

/// Declares the tables of a trace.
macro_rules! tables {
    ($( $(#[doc = $doc:literal])+ $field:ident: $table:ident $(in $wrapper:ident)?, )+) => {
        /// The tables of a trace.
        #[derive(Debug, Default)]
        pub struct Tables {
            $( $(#[doc = $doc])+ pub $field: wrapped!($table $($wrapper)?), )+
        }

        /// The id of a table of a trace.
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

            /// Frees unused capacity.
            pub(crate) fn shrink(&mut self) {
                $( rows!(self.$field $($wrapper)?).shrink(); )+
            }
        }

        impl Saved for Tables {
            fn save(&self, writer: &mut Writer<'_>) -> io::Result<()> {
                $( self.$field.save(writer)?; )+
                Ok(())
            }

            fn load(reader: &mut Reader) -> io::Result<Self> {
                Ok(Self {
                    $( $field: Saved::load(reader)?, )+
                })
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
    /// Nested intervals on tracks.
    slice: SliceTable,
    /// Values of counters.
    counter: CounterTable,
    /// Values of states.
    state: StateTable,
    /// CPU slices: the times in which threads ran on CPUs.
    sched_slice: SchedSliceTable in Derived,
    /// The states of threads.
    thread_state: ThreadStateTable in Derived,
    /// Wake-ups of threads that were awake.
    spurious_sched_wakeup: SpuriousSchedWakeupTable in Derived,
    /// Raw kernel events.
    ftrace_event: FtraceEventTable in Derived,
    /// Flows between slices.
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
    /// Frequencies supported by CPUs.
    cpu_freq: CpuFreqTable,
    /// GPUs.
    gpu: GpuTable,
    /// The groups of GPU counters.
    gpu_counter_group: GpuCounterGroupTable,
    /// Contexts of graphics interfaces.
    gpu_context: GpuContextTable,
    /// Machines.
    machine: MachineTable,
    /// Names of interrupts.
    linux_interrupt_mapping: InterruptMappingTable,
    /// Tracks of events.
    track: TrackTable,
    /// Arguments of rows of other tables.
    args: ArgsTable,
    /// Metadata of the trace.
    metadata: MetadataTable,
    /// Statistics of the recording and the import.
    stats: StatsTable,
    /// Simultaneous readings of clocks.
    clock_snapshot: ClockSnapshotTable,
    /// The files of the trace.
    trace_file: TraceFileTable,
    /// Single occurrences counted in `stats`.
    trace_import_logs: TraceImportLogsTable,
    /// Advice on problems of the recording.
    trace_diagnostics: TraceDiagnosticsTable,
    /// The fields of packets, by path.
    experimental_proto_path: ExperimentalProtoPathTable,
    /// The sizes of the fields of packets.
    experimental_proto_content: ExperimentalProtoContentTable,
    /// The first and the last time.
    trace_bounds: TraceBoundsTable,
    /// Files mapped by processes.
    stack_profile_mapping: StackProfileMappingTable,
    /// Functions at addresses.
    stack_profile_frame: StackProfileFrameTable,
    /// Frames and their callers.
    stack_profile_callsite: StackProfileCallsiteTable,
    /// Symbols from debug information.
    stack_profile_symbol: StackProfileSymbolTable,
    /// Tasks other than threads.
    profiler_async_context: ProfilerAsyncContextTable,
    /// Threads, processes and tasks that were sampled.
    profiler_task_context: ProfilerTaskContextTable,
    /// CPUs and CPU modes of samples.
    profiler_execution_context: ProfilerExecutionContextTable,
    /// Sessions of samples.
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
    /// Profiles without a timeline.
    aggregate_profile: AggregateProfileTable,
    /// Samples of profiles without a timeline.
    aggregate_sample: AggregateSampleTable,
    /// Heap graphs: dumps of all objects of a process.
    heap_graph: HeapGraphTable,
    /// The threads that caused heap graphs.
    heap_graph_thread_callsite: HeapGraphThreadCallsiteTable,
    /// Allocations that failed, and so caused heap graphs.
    heap_graph_java_oome_details: HeapGraphJavaOomeDetailsTable,
    /// Classes of objects.
    heap_graph_class: HeapGraphClassTable,
    /// Objects of heap graphs.
    heap_graph_object: HeapGraphObjectTable,
    /// Data of objects.
    heap_graph_object_data: HeapGraphObjectDataTable,
    /// References of objects to others.
    heap_graph_reference: HeapGraphReferenceTable,
    /// Values of fields that are no references.
    heap_graph_primitive: HeapGraphPrimitiveTable,
    /// Packages of Android.
    package_list: PackageListTable,
    /// Users of an Android device.
    android_user_list: AndroidUserListTable,
    /// Flags of Android.
    android_aflags: AndroidAflagsTable,
    /// Modes of games.
    android_game_intervention_list: AndroidGameInterventionListTable,
    /// Rectangles on screens.
    winscope_rect: WinscopeRectTable,
    /// Transformations of rectangles.
    winscope_transform: WinscopeTransformTable,
    /// Rectangles of layers, displays, windows and views.
    winscope_trace_rect: WinscopeTraceRectTable,
    /// The parts of windows that take input.
    winscope_fill_region: WinscopeFillRegionTable,
    /// The states of all layers at a time.
    surfaceflinger_layers_snapshot: SurfaceflingerLayersSnapshotTable,
    /// Displays.
    surfaceflinger_display: SurfaceflingerDisplayTable,
    /// Layers.
    surfaceflinger_layer: SurfaceflingerLayerTable,
    /// Changes that were applied at a time.
    surfaceflinger_transactions: SurfaceflingerTransactionsTable,
    /// Single changes of layers and displays.
    surfaceflinger_transaction: SurfaceflingerTransactionTable,
    /// The properties that transactions change.
    surfaceflinger_transaction_flag: SurfaceflingerTransactionFlagTable,
    /// Trees of views at a time.
    viewcapture: ViewcaptureTable,
    /// Views.
    viewcapture_view: ViewcaptureViewTable,
    /// Interned texts of views.
    viewcapture_interned_data: ViewcaptureInternedDataTable,
    /// The states of all windows at a time.
    windowmanager: WindowmanagerTable,
    /// Windows, and what contains them.
    windowmanager_windowcontainer: WindowmanagerWindowcontainerTable,
    /// Transitions between windows.
    window_manager_shell_transitions: WindowManagerShellTransitionsTable,
    /// Handlers of transitions.
    window_manager_shell_transition_handlers: WindowManagerShellTransitionHandlersTable,
    /// The windows that transitions change.
    window_manager_shell_transition_participants: WindowManagerShellTransitionParticipantsTable,
    /// The packets of transitions.
    window_manager_shell_transition_protos: WindowManagerShellTransitionProtosTable,
    /// Logs of system services.
    protolog: ProtologTable,
    /// States of the clients of input methods.
    inputmethod_clients: InputmethodClientsTable,
    /// States of the manager of input methods.
    inputmethod_manager_service: InputmethodManagerServiceTable,
    /// States of input methods.
    inputmethod_service: InputmethodServiceTable,
    /// Motions of fingers, pens and pointers.
    android_motion_events: AndroidMotionEventsTable,
    /// Presses and releases of keys.
    android_key_events: AndroidKeyEventsTable,
    /// Events of input as sent to windows.
    android_input_event_dispatch: AndroidInputEventDispatchTable,
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

    /// Sets the log from which tables are computed on first use.
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

    /// Sets the log from which arguments are computed, with all tables computed.
    pub(crate) fn attach_args(&mut self, log: &Arc<SchedLog>) {
        self.args.attach(log);
    }

    /// Returns all tables, in the order of their declaration.
    pub fn all(&self) -> impl Iterator<Item = &dyn Table> {
        TableId::ALL.iter().map(|id| self.table(*id))
    }

    /// Returns the memory of all tables in bytes.
    pub fn memory(&self) -> usize {
        self.all().map(Table::memory).sum()
    }

    /// Returns the maximum memory of all tables in bytes, with all parts computed.
    pub fn max_memory(&self) -> usize {
        self.all().map(Table::max_memory).sum()
    }
}

/// A set of tables.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TableSet(u128);

const _: () = assert!(TableId::ALL.len() <= 128);

impl TableSet {
    /// The set of all tables.
    pub const ALL: Self = Self(u128::MAX);
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
    pub(crate) const fn has_any(self, tables: Self) -> bool {
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
            for index in 0..table.spec().columns.len() {
                assert!(table.column(index).expect("column").is_empty());
            }
            assert!(table.column(table.spec().columns.len()).is_none());
        }
        assert!(tables.by_name("nothing").is_none());
    }
}
