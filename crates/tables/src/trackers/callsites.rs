//! Callsites, which are added in batches, if possible by another thread.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::lent::{Job, Lent};
use crate::schema::{StackProfileCallsiteRow, StackProfileCallsiteTable, Tables};
use crate::table::Table;

/// The maximum depth of callstacks.
const MAX_DEPTH: u32 = 1 << 12;

/// The number of frames after which a batch of callstacks is full.
const FRAMES: usize = 1 << 14;

/// The number of callstacks whose callsites are loaded together.
const STACKS_TOGETHER: usize = 16;

/// The callees of each callsite.
///
/// Most callsites have a single callee, since callstacks diverge near their roots.
#[derive(Debug, Default)]
struct Callees {
    /// The first callee of each callsite, by row, and its frame.
    first: Vec<(u32, u32)>,
    /// Callsites without a caller, and all but the first callees, by caller and frame.
    others: FxHashMap<u64, u32>,
}

impl Callees {
    const NONE: u32 = u32::MAX;

    fn key(caller: Option<u32>, frame: u32) -> u64 {
        // The caller plus one, since 0 means none.
        let caller = caller.map_or(0, |caller| u64::from(caller) + 1);
        caller << 32 | u64::from(frame)
    }

    #[inline]
    fn find(&self, caller: Option<u32>, frame: u32) -> Option<u32> {
        if let Some(caller) = caller {
            match self.first.get(caller as usize).copied() {
                None | Some((Self::NONE, _)) => return None,
                Some((first, of)) if of == frame => return Some(first),
                Some(_) => {}
            }
        }
        self.others.get(&Self::key(caller, frame)).copied()
    }

    /// Adds a callsite with the next row.
    #[inline]
    fn add(&mut self, caller: Option<u32>, frame: u32, row: u32) {
        self.first.resize(row as usize + 1, (Self::NONE, 0));
        match caller.and_then(|caller| self.first.get_mut(caller as usize)) {
            Some(first) if first.0 == Self::NONE => *first = (row, frame),
            _ => {
                self.others.insert(Self::key(caller, frame), row);
            }
        }
    }

    /// Loads the known callsites of some callstacks, which are searched afterwards. Their cache
    /// misses overlap, while each callsite of one callstack is found only after its caller.
    fn touch<'a>(&self, callstacks: impl Iterator<Item = &'a [u32]>) {
        let mut callers = [(None, &[][..]); STACKS_TOGETHER];
        let mut count = 0;
        for (caller, frames) in callers.iter_mut().zip(callstacks) {
            *caller = (None, frames);
            count += 1;
        }
        let mut callers = &mut callers[..count];
        while !callers.is_empty() {
            let mut left = 0;
            for index in 0..callers.len() {
                let (caller, frames) = callers[index];
                if let [frame, frames @ ..] = frames
                    && let Some(callsite) = self.find(caller, *frame)
                {
                    callers[left] = (Some(callsite), frames);
                    left += 1;
                }
            }
            callers = &mut callers[..left];
        }
    }

    /// Returns the row of a callstack, and adds new callsites. Frames that are too deep are cut.
    fn callstack(
        &mut self,
        table: &mut StackProfileCallsiteTable,
        frames: impl IntoIterator<Item = u32>,
    ) -> Option<u32> {
        let mut caller = None;
        for (depth, frame_id) in (0..MAX_DEPTH).zip(frames) {
            let known = self.find(caller, frame_id);
            caller = known.or_else(|| {
                let callsite = table.push(StackProfileCallsiteRow {
                    depth,
                    parent_id: caller,
                    frame_id,
                });
                self.add(caller, frame_id, callsite);
                Some(callsite)
            });
        }
        caller
    }
}

/// A callstack whose callsite may be added later, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket(pub(crate) u32);

/// Callstacks, each with the outermost frame first.
#[derive(Debug, Default)]
struct Batch {
    frames: Vec<u32>,
    /// The ends of the callstacks in `frames`.
    ends: Vec<usize>,
}

impl Batch {
    fn callstacks(&self, indexes: Range<usize>) -> impl Iterator<Item = &[u32]> {
        indexes.map(|index| {
            let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
            &self.frames[start..self.ends[index]]
        })
    }

    fn clear(&mut self) {
        self.frames.clear();
        self.ends.clear();
    }
}

/// The table, a batch to add, and its callsites.
#[derive(Debug)]
struct Extension {
    table: StackProfileCallsiteTable,
    callees: Callees,
    batch: Batch,
    found: Vec<u32>,
}

impl Job for Extension {
    fn run(&mut self) {
        let Self {
            table,
            callees,
            batch,
            found,
        } = self;
        found.clear();
        let count = batch.ends.len();
        for start in (0..count).step_by(STACKS_TOGETHER) {
            let indexes = start..count.min(start + STACKS_TOGETHER);
            callees.touch(batch.callstacks(indexes.clone()));
            for frames in batch.callstacks(indexes) {
                let callsite = callees.callstack(table, frames.iter().copied());
                found.push(callsite.unwrap_or(Callees::NONE));
            }
        }
    }
}

/// The callsites of all callstacks.
///
/// One batch of callstacks is being filled. The previous batch may be lent with the table.
#[derive(Debug)]
pub(crate) struct Callsites {
    callees: Callees,
    filling: Batch,
    lent: Lent<Extension>,
    spare: (Batch, Vec<u32>),
    /// The number of tickets.
    tickets: u32,
    /// The callsites of the first callstacks, by ticket.
    found: Vec<u32>,
    /// The samples without a callsite, and their tickets.
    samples: Vec<(u32, Ticket)>,
}

impl Callsites {
    /// Creates an empty list.
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            callees: Callees::default(),
            filling: Batch::default(),
            lent: Lent::new(threads),
            spare: Default::default(),
            tickets: 0,
            found: Vec::new(),
            samples: Vec::new(),
        }
    }

    /// Returns the row of a callstack, with the outermost frame first. Frames that are too deep are
    /// cut; `None` if there are no frames.
    pub(crate) fn callstack(
        &mut self,
        tables: &mut Tables,
        frames: impl IntoIterator<Item = u32>,
    ) -> Option<u32> {
        self.flush(tables);
        let table = &mut tables.stack_profile_callsite;
        self.callees.callstack(table, frames)
    }

    /// Adds a callstack, with the outermost frame first, whose callsite is needed later. `None` if
    /// there are no frames.
    pub(crate) fn add(&mut self, tables: &mut Tables, frames: &[u32]) -> Option<Ticket> {
        if frames.is_empty() {
            return None;
        }
        let ticket = Ticket(self.tickets);
        self.tickets += 1;
        self.filling.frames.extend_from_slice(frames);
        self.filling.ends.push(self.filling.frames.len());
        if self.filling.frames.len() >= FRAMES {
            self.take_back(tables);
            self.send(tables);
        }
        Some(ticket)
    }

    /// Returns the callsite of a callstack if it is known already.
    #[inline]
    pub(crate) fn known(&self, Ticket(number): Ticket) -> Option<u32> {
        self.found.get(number as usize).copied()
    }

    /// Returns the callsite of a callstack.
    pub(crate) fn wait_for(&mut self, tables: &mut Tables, ticket: Ticket) -> Option<u32> {
        if self.known(ticket).is_none() {
            self.flush(tables);
        }
        self.known(ticket)
    }

    /// Sets the callsite of a sample, a row of `profiler_sample`, once it is known.
    pub(crate) fn set_later(&mut self, sample: u32, ticket: Ticket) {
        self.samples.push((sample, ticket));
    }

    /// Adds the callsites of all callstacks.
    #[inline]
    pub(crate) fn flush(&mut self, tables: &mut Tables) {
        if self.tickets as usize > self.found.len() {
            self.flush_all(tables);
        }
    }

    #[cold]
    fn flush_all(&mut self, tables: &mut Tables) {
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
        let (batch, found) = std::mem::take(&mut self.spare);
        Extension {
            table: std::mem::take(&mut tables.stack_profile_callsite),
            callees: std::mem::take(&mut self.callees),
            batch: std::mem::replace(&mut self.filling, batch),
            found,
        }
    }

    fn send(&mut self, tables: &mut Tables) {
        let memory = tables.stack_profile_callsite.memory();
        let job = self.job(tables);
        self.lent.send(job, memory);
    }

    fn take_back(&mut self, tables: &mut Tables) {
        if let Some(job) = self.lent.take_back() {
            self.finish(tables, job);
        }
    }

    fn finish(&mut self, tables: &mut Tables, mut job: Extension) {
        tables.stack_profile_callsite = job.table;
        self.callees = job.callees;
        self.found.extend_from_slice(&job.found);
        job.batch.clear();
        self.spare = (job.batch, job.found);
        let found = &self.found;
        self.samples.retain(|(sample, Ticket(number))| {
            let callsite = found.get(*number as usize).copied();
            if callsite.is_some() {
                tables.profiler_sample.callsite_id.set(*sample, callsite);
            }
            callsite.is_none()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferretto_testing::Random;

    #[test]
    fn callsites_that_are_added_later_are_the_same() {
        let mut random = Random(3);
        let stacks: Vec<Vec<u32>> = (0..3000)
            .map(|_| {
                let frames = 0..1 + random.below(40);
                frames.map(|depth| random.below(1 + depth) as u32).collect()
            })
            .collect();
        let mut expected = Tables::default();
        let mut at_once = Callsites::new(1);
        let rows: Vec<_> = stacks
            .iter()
            .map(|stack| at_once.callstack(&mut expected, stack.iter().copied()))
            .collect();
        let expected = &expected.stack_profile_callsite;
        for threads in [1, 2] {
            let mut tables = Tables::default();
            let mut callsites = Callsites::new(threads);
            let tickets: Vec<_> = stacks
                .iter()
                .enumerate()
                .map(|(index, stack)| {
                    let ticket = callsites.add(&mut tables, stack).expect("frames");
                    if index % 1000 == 500 {
                        // Needed at once.
                        let row = callsites.wait_for(&mut tables, ticket);
                        assert_eq!(row, rows[index]);
                    }
                    ticket
                })
                .collect();
            callsites.flush(&mut tables);
            let later: Vec<_> = tickets.iter().map(|t| callsites.known(*t)).collect();
            assert_eq!(later, rows);
            let table = &tables.stack_profile_callsite;
            assert_eq!(table.len(), expected.len());
            for row in 0..table.len() {
                assert_eq!(table.row(row), expected.row(row));
            }
        }
    }

    #[test]
    fn a_callstack_without_frames_has_no_callsite() {
        let mut tables = Tables::default();
        let mut callsites = Callsites::new(2);
        assert_eq!(callsites.add(&mut tables, &[]), None);
        assert_eq!(callsites.callstack(&mut tables, []), None);
    }
}
