//! A reader of the records of a ring.

use super::{Memory, Overrun, Unread};
use crate::record::{Format, Record, Totals, parse};

/// The number of bytes that are returned to the writer at once: rarely enough to be cheap, often
/// enough to be useful.
const RETURNED_AT_ONCE: usize = 128 << 10;

const HEADER: usize = 8;

/// The result of a read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drained {
    /// The number of samples that were read.
    pub samples: u64,
    /// Set if all records present at the start were read; otherwise the limit was reached.
    pub empty: bool,
}

/// A reader of the records of a ring.
#[derive(Debug)]
pub struct RecordReader<M> {
    memory: M,
    format: Format,
    /// A buffer for the one record per round that wraps around the end of the ring.
    scratch: Vec<u8>,
    totals: Totals,
    lost: u64,
    malformed: u64,
}

impl<M: Memory> RecordReader<M> {
    /// Creates a reader of a ring whose samples have this format.
    pub fn new(memory: M, format: Format) -> Self {
        Self {
            memory,
            format,
            scratch: Vec::new(),
            totals: Totals::default(),
            lost: 0,
            malformed: 0,
        }
    }

    /// Returns the ring.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Returns the ring for modification.
    pub fn memory_mut(&mut self) -> &mut M {
        &mut self.memory
    }

    /// Returns the sums of the counts in samples.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Returns the number of lost records that the ring has reported.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the number of malformed bytes that were skipped.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Passes records to `each` until there are none left, or `limit` samples have been passed.
    /// Records written meanwhile are left for the next call, so this returns whatever the speed of
    /// the writer.
    pub fn read(&mut self, limit: u64, each: &mut impl FnMut(Record<'_>)) -> Drained {
        let mut drained = Drained::default();
        let mut left = match self.memory.unread() {
            Ok(unread) => unread.len(),
            Err(_) => usize::MAX,
        };
        while left > 0 && drained.samples < limit {
            let taken = self.read_some(left, limit, &mut drained.samples, each);
            left = left.saturating_sub(taken);
            if taken == 0 {
                break;
            }
        }
        drained.empty = drained.samples < limit || left == 0;
        drained
    }

    /// Reads some of the next `left` bytes, returns them to the writer, and returns their
    /// number.
    fn read_some(
        &mut self,
        left: usize,
        limit: u64,
        samples: &mut u64,
        each: &mut impl FnMut(Record<'_>),
    ) -> usize {
        let unread = match self.memory.unread() {
            Ok(unread) => unread,
            Err(Overrun(claimed)) => return self.skip(claimed as usize, each),
        };
        let left = left.min(unread.len());
        let mut taken = 0;
        while taken < left.min(RETURNED_AT_ONCE) && *samples < limit {
            let Some(size) = record_size(&unread, taken, &mut self.scratch) else {
                self.memory.consume(taken);
                return taken.saturating_add(self.skip(left - taken, each));
            };
            let Some(bytes) = unread.bytes(taken, size, &mut self.scratch) else {
                break;
            };
            taken += size;
            let record = parse(&self.format, bytes, &mut self.totals);
            let mut ended = None;
            match &record {
                Record::Exit(task) => ended = Some(task.tid),
                Record::Sample(_) => *samples += 1,
                Record::Lost { count } => self.lost = self.lost.saturating_add(*count),
                Record::Malformed { bytes } => self.malformed += *bytes as u64,
                _ => {}
            }
            each(record);
            if let Some(tid) = ended {
                self.totals.forget(tid);
            }
        }
        self.memory.consume(taken);
        taken
    }

    /// Skips the next `count` bytes, in which record boundaries are lost.
    fn skip(&mut self, count: usize, each: &mut impl FnMut(Record<'_>)) -> usize {
        self.memory.consume(count);
        self.malformed = self.malformed.saturating_add(count as u64);
        each(Record::Malformed { bytes: count });
        count
    }
}

/// Returns the size of the record at `at`, if it is valid.
fn record_size(unread: &Unread<'_>, at: usize, scratch: &mut Vec<u8>) -> Option<usize> {
    let header = unread.bytes(at, HEADER, scratch)?;
    let size = usize::from(u16::from_ne_bytes([header[6], header[7]]));
    let possible = size >= HEADER && size.is_multiple_of(8) && at + size <= unread.len();
    possible.then_some(size)
}
