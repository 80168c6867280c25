//! The choice of what to import, and by which means.

use ferretto_trace::Limits;

use crate::schema::{TableId, TableSet};

/// The choice of what to import, and by which means.
#[derive(Debug, Clone)]
pub struct Options {
    /// The tables that are wanted. Others may stay empty, which takes less time and memory.
    pub tables: TableSet,
    /// The memory that the reader of the file may take.
    pub limits: Limits,
    /// The memory that tables and waiting packets may take, in bytes. When they take more, the rest
    /// of the file is left out.
    pub memory: usize,
    /// The threads that may work at a time.
    pub threads: usize,
    /// Sorts all events at once instead of in windows.
    pub full_sort: bool,
}

impl Default for Options {
    /// All tables, as many threads as there are CPUs, and no bound for the tables.
    fn default() -> Self {
        Self {
            tables: TableSet::ALL,
            limits: Limits::default(),
            memory: usize::MAX,
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
