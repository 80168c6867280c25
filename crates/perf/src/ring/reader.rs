//! Walking the records of a ring.

use super::{Memory, Overrun, Unread};
use crate::record::{Format, Record, Totals, parse};

/// The room that is given back to the writer at once: seldom enough to cost nothing, early enough
/// that it matters.
const RETURNED_AT_ONCE: usize = 128 << 10;

const HEADER: usize = 8;

/// The result of one read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drained {
    /// Samples handed out.
    pub samples: u64,
    /// Set if everything that was there at the beginning was read. If not, the limit was reached.
    pub empty: bool,
}

/// Walks the records of a ring.
#[derive(Debug)]
pub struct RecordReader<M> {
    memory: M,
    format: Format,
    /// For the one record in a round that is torn by the end of the ring.
    scratch: Vec<u8>,
    totals: Totals,
    lost: u64,
    malformed: u64,
}

impl<M: Memory> RecordReader<M> {
    /// A reader of that ring, whose samples have that format.
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

    /// The ring.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The ring, to be changed.
    pub fn memory_mut(&mut self) -> &mut M {
        &mut self.memory
    }

    /// Returns the counts that samples have told so far.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Records lost so far, as far as the ring says.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Bytes skipped so far because they were no records.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Hands out records until there are no more, or `limit` samples have been handed out. Records
    /// written meanwhile are left for the next call, so this ends however fast the writer is.
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

    /// Hands out some of the next `left` bytes, gives their room back, and returns their number.
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

    /// Nothing in the next `count` bytes can be trusted: where records begin is lost.
    fn skip(&mut self, count: usize, each: &mut impl FnMut(Record<'_>)) -> usize {
        self.memory.consume(count);
        self.malformed = self.malformed.saturating_add(count as u64);
        each(Record::Malformed { bytes: count });
        count
    }
}

/// The size of the record at `at`, if it is possible.
fn record_size(unread: &Unread<'_>, at: usize, scratch: &mut Vec<u8>) -> Option<usize> {
    let header = unread.bytes(at, HEADER, scratch)?;
    let size = usize::from(u16::from_ne_bytes([header[6], header[7]]));
    let possible = size >= HEADER && size.is_multiple_of(8) && at + size <= unread.len();
    possible.then_some(size)
}
