//! Options of an import.

use ferretto_format::disk::RequestEvents;
use ferretto_trace::Limits;

use crate::machine::machine_memory;
use crate::schema::{TableId, TableSet};

/// Options of an import.
#[derive(Debug, Clone)]
pub struct Options {
    /// The tables that are wanted. Other tables may stay empty, which takes less time and memory.
    ///
    /// - `sched_slice`, `thread_state`, `spurious_sched_wakeup` and `ftrace_event` are computed
    ///   from a log on first use. Without any of them, there is no log.
    /// - Without `ftrace_event`, only the kernel events that other tables need are read, and the
    ///   log contains no names.
    /// - Without `args`, arguments of track events are not read. In many traces, they take the most
    ///   time.
    /// - Without `slice`, `counter`, `logs`, `filedescriptor`, `heap_profile_allocation` or
    ///   `profiler_smaps`, data that only fills these tables is skipped.
    ///
    /// Threads, processes and tracks are always imported, so that ids in other rows do not depend
    /// on this option.
    pub tables: TableSet,
    /// The arguments that are wanted, if `args` is.
    pub args: WantedArgs,
    /// The limits of the memory of the reader.
    pub limits: Limits,
    /// The maximum memory of tables and waiting packets in bytes. The import ends at this limit.
    /// Tables that are computed later do not count.
    pub memory: usize,
    /// The number of threads. With more than one, the file is read and events are decoded ahead of
    /// the thread that fills the tables. The result does not depend on it.
    pub threads: usize,
    /// Sorts all events at once instead of in windows.
    pub full_sort: bool,
    /// Leaves out track events before the range of interest that the trace declares.
    pub crop_track_events: bool,
    /// Counts the fields of all packets and their sizes, in the tables `experimental_proto_path`
    /// and `experimental_proto_content`.
    pub proto_content: bool,
    /// Set if the trace is a part of another one that continues: keeps the ends of flows that the
    /// trace does not connect ([`Trace::flow_ends`]), and slices open whose end may follow.
    ///
    /// [`Trace::flow_ends`]: crate::Trace::flow_ends
    pub is_part: bool,
    /// The events that begin and end requests to disks; by default those of drivers if the trace
    /// has them.
    pub request_events: Option<RequestEvents>,
    /// Reads the files that a recording of `perf record` names, to unwind its stacks and name the
    /// kernel's functions. Unset this if the recording is from another machine.
    pub reads_files: bool,
}

/// The arguments that are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WantedArgs {
    /// All.
    All,
    /// Those of system calls about locks (`futex`), of which the first is the address of the lock.
    /// Others may be left out, which takes less time and memory.
    OfLocks,
}

impl Default for Options {
    /// All tables, one thread for each CPU, and half of [`machine_memory`]. Programs that
    /// import several traces at a time, or that may use only a part of the machine, should set
    /// lower limits.
    fn default() -> Self {
        Self {
            tables: TableSet::ALL,
            args: WantedArgs::All,
            limits: Limits::default(),
            memory: machine_memory().map_or(usize::MAX, |all| all / 2),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            full_sort: false,
            crop_track_events: false,
            proto_content: false,
            is_part: false,
            request_events: None,
            reads_files: true,
        }
    }
}

impl Options {
    /// Returns options for only these tables.
    pub fn for_tables(tables: &[TableId]) -> Self {
        Self {
            tables: TableSet::of(tables),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_tables_is_limited_by_default() {
        let memory = Options::default().memory;
        let is_known = std::path::Path::new("/proc/meminfo").exists();
        assert_eq!(memory < usize::MAX, is_known);
    }
}
