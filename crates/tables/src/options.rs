//! The choice of what to import, and by which means.

use std::sync::OnceLock;

use ferretto_trace::Limits;

use crate::schema::{TableId, TableSet};

/// The choice of what to import, and by which means.
#[derive(Debug, Clone)]
pub struct Options {
    /// The tables that are wanted. Others may stay empty, which takes less time and memory.
    ///
    /// - `sched_slice`, `thread_state`, `spurious_sched_wakeup` and `ftrace_event` are computed
    ///   from one log when they are asked for. It is not kept if none of them is wanted.
    /// - Without `ftrace_event`, kernel events are read only as far as other tables need them, and
    ///   there are no names in the log.
    /// - Without `args`, those of track events are not read, and none are kept. In many traces
    ///   nothing takes longer.
    /// - Without `slice`, `counter`, `logs`, `filedescriptor`, `heap_profile_allocation` or
    ///   `profiler_smaps`, what only fills these is left out.
    ///
    /// Threads, processes and tracks are always there, so that a row that refers to them has the
    /// same numbers whatever else is wanted.
    pub tables: TableSet,
    /// The memory that the reader of the file may take.
    pub limits: Limits,
    /// The memory that tables and waiting packets may take, in bytes. When they take more, the rest
    /// of the file is left out. Tables that are computed later do not count.
    pub memory: usize,
    /// The threads that may work at a time: with more than one, the file is read and events are
    /// decoded ahead of those that fill the tables. The tables are the same for any number.
    pub threads: usize,
    /// Sorts all events at once instead of in windows.
    pub full_sort: bool,
}

impl Default for Options {
    /// All tables, as many threads as there are CPUs, and half of the machine's memory. Programs
    /// that import several traces at a time, or may use only a part of the machine, have to set a
    /// bound of their own.
    fn default() -> Self {
        Self {
            tables: TableSet::ALL,
            limits: Limits::default(),
            memory: half_of_machine(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            full_sort: false,
        }
    }
}

impl Options {
    /// Returns options for these tables alone.
    pub fn for_tables(tables: &[TableId]) -> Self {
        Self {
            tables: TableSet::of(tables),
            ..Self::default()
        }
    }
}

/// Returns half of the memory of this machine, in bytes; no bound if the system does not tell.
fn half_of_machine() -> usize {
    static HALF: OnceLock<usize> = OnceLock::new();
    *HALF.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let kib = line.and_then(|line| line.split_whitespace().next());
        let kib = kib.and_then(|kib| kib.parse::<usize>().ok());
        kib.map_or(usize::MAX, |kib| kib.saturating_mul(1024) / 2)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_bounded_by_default() {
        let memory = Options::default().memory;
        let is_told = std::path::Path::new("/proc/meminfo").exists();
        assert_eq!(memory < usize::MAX, is_told);
    }
}
