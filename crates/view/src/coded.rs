//! Levels of detail in an index: everything that is shown of each run, so that a picture reads no
//! table.

use std::io;
use std::ops::Range;

use ferretto_tables::saved::{Array, Data, Reader, Writer};

use crate::varints::Varints;

/// The number of runs that are read together.
const CHUNK: usize = 512;

/// A run of rows, as it is shown.
pub(crate) trait Run: Copy {
    /// Returns the time of its start.
    fn start(&self) -> i64;

    /// Returns true if a run that starts before a window is shown in it.
    fn reaches(&self, window: &Range<i64>) -> bool;

    /// Appends the run to bytes, which contain the one before it.
    fn put(&self, before: Option<&Self>, bytes: &mut Vec<u8>);

    /// Reads a run that was written with the same one before it.
    fn take(before: Option<&Self>, varints: &mut Varints<'_>) -> Self;
}

/// The runs of a level in an index, in chunks.
#[derive(Debug)]
pub(crate) struct Coded {
    /// The start of the first run of each chunk.
    starts: Array<i64>,
    /// The end of each chunk in the data.
    ends: Array<u64>,
    data: Data,
}

impl Coded {
    /// Writes runs, which are sorted by time.
    pub(crate) fn save<T: Run>(
        runs: impl Iterator<Item = T>,
        writer: &mut Writer<'_>,
    ) -> io::Result<()> {
        let (mut starts, mut ends, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        let mut before = None;
        for (index, run) in runs.enumerate() {
            if index % CHUNK == 0 {
                if index > 0 {
                    ends.push(bytes.len() as u64);
                }
                starts.push(run.start());
                before = None;
            }
            run.put(before.as_ref(), &mut bytes);
            before = Some(run);
        }
        ends.push(bytes.len() as u64);
        Array::from(starts).save(writer)?;
        Array::from(ends).save(writer)?;
        Data::save(&bytes, writer)
    }

    pub(crate) fn load(reader: &mut Reader) -> io::Result<Self> {
        Ok(Self {
            starts: Array::load(reader)?,
            ends: Array::load(reader)?,
            data: Data::load(reader)?,
        })
    }

    /// Calls `each` with the runs that start in a window, and with the one before it if it reaches
    /// the window.
    pub(crate) fn show<T: Run>(&self, window: &Range<i64>, mut each: impl FnMut(T)) {
        let behind = self.starts.partition_point(|start| *start < window.start);
        let mut before: Option<T> = None;
        'chunks: for chunk in behind.saturating_sub(1)..self.starts.len() {
            for run in self.chunk::<T>(chunk) {
                if run.start() < window.start {
                    before = Some(run);
                    continue;
                }
                if let Some(before) = before.take().filter(|run| run.reaches(window)) {
                    each(before);
                }
                if run.start() >= window.end {
                    break 'chunks;
                }
                each(run);
            }
        }
        if let Some(before) = before.filter(|run| run.reaches(window)) {
            each(before);
        }
    }

    fn chunk<T: Run>(&self, index: usize) -> Vec<T> {
        let end = |index: usize| self.ends.get(index).map_or(0, |end| *end as usize);
        let begin = index.checked_sub(1).map_or(0, end);
        let bytes = self.data.read(begin..end(index));
        let mut varints = Varints::new(&bytes);
        let mut runs: Vec<T> = Vec::with_capacity(CHUNK);
        while !varints.is_empty() {
            runs.push(T::take(runs.last(), &mut varints));
        }
        runs
    }

    /// Returns the memory of the list of chunks in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.starts.memory() + self.ends.memory()
    }
}
