//! The rows of lanes.

use std::io;
use std::ops::Range;

use ferretto_tables::saved::{Blocks, Reader, Writer};

/// The rows of all lanes, one lane after the other.
#[derive(Debug)]
pub(super) enum AllRows {
    /// Those of an imported trace.
    Built(Vec<u32>),
    /// Those of an index, which are read when they are needed.
    Saved(Blocks),
}

impl Default for AllRows {
    fn default() -> Self {
        Self::Built(Vec::new())
    }
}

impl AllRows {
    #[inline]
    fn get(&self, index: u32) -> u32 {
        match self {
            Self::Built(rows) => rows.get(index as usize).copied().unwrap_or(0),
            Self::Saved(rows) => rows.get(index as usize),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Built(rows) => rows.len(),
            Self::Saved(rows) => rows.count(),
        }
    }

    /// Returns the rows of a lane.
    pub(super) fn lane(&self, lane: Range<u32>) -> Rows<'_> {
        Rows {
            all: self,
            from: lane.start,
            to: lane.end.max(lane.start),
        }
    }

    /// Returns the memory in bytes.
    pub(super) fn memory(&self) -> usize {
        match self {
            Self::Built(rows) => 4 * rows.capacity(),
            Self::Saved(rows) => rows.memory(),
        }
    }

    pub(super) fn save(&self, writer: &mut Writer<'_>) -> io::Result<()> {
        let rows = 0..self.len();
        Blocks::save(rows.map(|index| self.get(index as u32)), writer)
    }

    pub(super) fn load(reader: &mut Reader) -> io::Result<Self> {
        Blocks::load(reader).map(Self::Saved)
    }
}

/// Rows of one lane, sorted by time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows<'a> {
    all: &'a AllRows,
    from: u32,
    to: u32,
}

impl<'a> Rows<'a> {
    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        (self.to - self.from) as usize
    }

    /// Returns the row at an index.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<u32> {
        let at = u32::try_from(index).ok()?.checked_add(self.from)?;
        (at < self.to).then(|| self.all.get(at))
    }

    /// Returns the first row.
    pub(crate) fn first(&self) -> Option<u32> {
        self.get(0)
    }

    /// Returns the last row.
    pub(crate) fn last(&self) -> Option<u32> {
        self.get(self.len().checked_sub(1)?)
    }

    /// Returns an iterator over all rows.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = u32> + Clone + use<'a> {
        let all = self.all;
        let rows = self.from as usize..self.to as usize;
        rows.map(move |at| all.get(at as u32))
    }

    /// Returns the index of the first row for which `is_before` is false. It must be true for all
    /// rows before that one.
    pub(crate) fn partition_point(&self, is_before: impl Fn(u32) -> bool) -> usize {
        let (mut from, mut to) = (self.from, self.to);
        while from < to {
            let middle = from + (to - from) / 2;
            if is_before(self.all.get(middle)) {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        (from - self.from) as usize
    }

    /// Returns the rows from an index on.
    pub(crate) fn behind(self, index: usize) -> Self {
        let skipped = index.min(self.len()) as u32;
        Self {
            from: self.from + skipped,
            ..self
        }
    }

    /// Returns the rows before an index.
    pub(crate) fn before(self, index: usize) -> Self {
        let kept = index.min(self.len()) as u32;
        Self {
            to: self.from + kept,
            ..self
        }
    }
}
