//! Argument sets that are added to the table in batches, if possible by another thread.

use crate::lent::{Job, Lent};
use crate::schema::{Arg, ArgsTable, Tables};
use crate::table::Table;

/// The limits of a batch: sets, and arguments.
const SETS: usize = 1 << 10;
const ARGS: usize = 1 << 13;

/// The row of an argument set.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Owner {
    Slice(u32),
    Counter(u32),
}

/// Argument sets that are not in the table yet.
///
/// One batch is being filled. The previous batch may be lent with the table.
#[derive(Debug)]
pub(crate) struct WaitingArgs {
    filling: Batch,
    lent: Lent<Extension>,
    spare: Batch,
}

/// Argument sets and their rows.
#[derive(Debug, Default)]
struct Batch {
    args: Vec<Arg>,
    /// The ends of the sets in `args`.
    ends: Vec<usize>,
    owners: Vec<Owner>,
}

impl Batch {
    fn clear(&mut self) {
        self.args.clear();
        self.ends.clear();
        self.owners.clear();
    }
}

/// The table, a batch to add, and the ids of its sets.
#[derive(Debug)]
struct Extension {
    table: ArgsTable,
    batch: Batch,
    numbers: Vec<u32>,
}

impl Job for Extension {
    fn run(&mut self) {
        let Self {
            table,
            batch,
            numbers,
        } = self;
        table.intern_all(&batch.args, &batch.ends, numbers);
    }
}

impl WaitingArgs {
    /// Creates an empty list.
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            filling: Batch::default(),
            lent: Lent::new(threads),
            spare: Batch::default(),
        }
    }

    /// Returns true if all sets are in the table.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.filling.ends.is_empty() && !self.lent.is_away()
    }

    /// Adds a set.
    #[inline]
    pub(crate) fn push(&mut self, tables: &mut Tables, args: &[Arg], owner: Owner) {
        let batch = &mut self.filling;
        batch.args.extend_from_slice(args);
        batch.ends.push(batch.args.len());
        batch.owners.push(owner);
        if batch.ends.len() >= SETS || batch.args.len() >= ARGS {
            self.take_back(tables);
            self.send(tables);
        }
    }

    /// Moves all sets into the table, in their order.
    #[cold]
    pub(crate) fn flush(&mut self, tables: &mut Tables) {
        self.take_back(tables);
        if !self.filling.ends.is_empty() {
            let mut job = self.job(tables);
            job.run();
            self.finish(tables, job);
        }
    }

    /// Returns the memory of the table in bytes while it is not in the list of tables.
    pub(crate) fn memory(&self) -> usize {
        self.lent.memory()
    }

    fn job(&mut self, tables: &mut Tables) -> Extension {
        let spare = std::mem::take(&mut self.spare);
        Extension {
            table: std::mem::take(&mut tables.args),
            batch: std::mem::replace(&mut self.filling, spare),
            numbers: Vec::new(),
        }
    }

    fn send(&mut self, tables: &mut Tables) {
        let memory = tables.args.memory();
        let job = self.job(tables);
        self.lent.send(job, memory);
    }

    fn take_back(&mut self, tables: &mut Tables) {
        if let Some(job) = self.lent.take_back() {
            self.finish(tables, job);
        }
    }

    fn finish(&mut self, tables: &mut Tables, mut job: Extension) {
        tables.args = job.table;
        for (owner, number) in job.batch.owners.iter().zip(&job.numbers) {
            match *owner {
                Owner::Slice(row) => tables.slice.arg_set_id.set(row, Some(*number)),
                Owner::Counter(row) => tables.counter.arg_set_id.set(row, Some(*number)),
            }
        }
        job.batch.clear();
        self.spare = job.batch;
    }
}
