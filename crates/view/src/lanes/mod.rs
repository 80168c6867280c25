//! Lanes: rows of a table that are sorted by time and do not overlap, at every level of detail.

mod pyramid;
mod rows;
mod run;

use std::io;
use std::ops::Range;

use ferretto_tables::StringId;
use ferretto_tables::column::Column;
use ferretto_tables::saved::{Reader, Writer};

pub(crate) use self::pyramid::promising;
use self::pyramid::{Level, MIN_ROWS, build};
use self::rows::AllRows;
pub(crate) use self::rows::Rows;
use crate::parallel;

/// The number of rows up to which an index has everything that is shown of each.
pub(crate) const MAX_CODED: usize = 2048;

/// The times of a table's rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times<'a> {
    ts: &'a Column<i64>,
    /// `None` if all rows are instants.
    dur: Option<&'a Column<i64>>,
    /// The end of rows without a duration.
    end: i64,
}

impl<'a> Times<'a> {
    pub(crate) fn new(ts: &'a Column<i64>, dur: Option<&'a Column<i64>>, end: i64) -> Self {
        Self { ts, dur, end }
    }

    #[inline]
    pub(crate) fn start(&self, row: u32) -> i64 {
        self.ts.get(row)
    }

    #[inline]
    pub(crate) fn end(&self, row: u32) -> i64 {
        let start = self.ts.get(row);
        match self.dur.map_or(0, |dur| dur.get(row)) {
            dur if dur < 0 => self.end.max(start),
            dur => start.saturating_add(dur),
        }
    }

    /// Returns true if the end of the row is unknown.
    #[inline]
    pub(crate) fn is_open(&self, row: u32) -> bool {
        self.dur.is_some_and(|dur| dur.get(row) < 0)
    }
}

/// A row to show, or several merged ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// The row, or the longest of the merged ones.
    pub(crate) row: u32,
    pub(crate) count: u32,
    /// The share of the time that rows fill; 255 is all of it.
    pub(crate) load: u8,
    /// The properties of the row in the index; `None` if the tables must be read.
    pub(crate) known: Option<Known>,
}

/// The name of a row, and the node to which it refers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) name: StringId,
    /// A node, or [`NONE`](crate::nodes::NONE).
    pub(crate) other: u32,
}

impl Label {
    /// The label of rows without a name that refer to no node.
    pub(crate) const NONE: Self = Self {
        name: StringId::NULL,
        other: crate::nodes::NONE,
    };
}

/// Properties of a row, or of the longest of merged ones, that a picture shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) label: Label,
    /// True for a single row whose end is unknown.
    pub(crate) is_open: bool,
}

impl Shown {
    /// Returns a single row.
    fn single(row: u32, times: Times<'_>) -> Self {
        Self {
            start: times.start(row),
            end: times.end(row),
            row,
            count: 1,
            load: u8::MAX,
            known: None,
        }
    }

    /// Returns the properties of the row. `label` returns the label of a row.
    pub(crate) fn known(&self, times: Times<'_>, label: impl FnOnce(u32) -> Label) -> Known {
        self.known.unwrap_or_else(|| Known {
            label: label(self.row),
            is_open: self.count == 1 && times.is_open(self.row),
        })
    }

    /// Returns the row with its properties.
    fn with_known(self, times: Times<'_>, label: impl FnOnce(u32) -> Label) -> Self {
        Self {
            known: Some(self.known(times, label)),
            ..self
        }
    }
}

/// The lanes of a table.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    /// The rows of all lanes. Those of each lane are sorted by time.
    rows: AllRows,
    /// The index in `rows` at which each lane starts, and the end of the last one.
    starts: Vec<u32>,
    /// The levels of long lanes, by lane.
    pyramids: Vec<(u32, Vec<Level>)>,
}

impl Lanes {
    /// Sorts the rows of a table into lanes. `lane` returns the lane of a row.
    pub(crate) fn new(rows: u32, lanes: usize, lane: impl Fn(u32) -> Option<u32>) -> Self {
        let mut starts = vec![0_u32; lanes + 1];
        for row in 0..rows {
            if let Some(count) = lane(row).and_then(|lane| starts.get_mut(lane as usize + 1)) {
                *count += 1;
            }
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        let mut ends = starts.clone();
        let mut sorted = vec![0; sum as usize];
        for row in 0..rows {
            if let Some(lane) = lane(row).filter(|lane| (*lane as usize) < lanes) {
                let end = &mut ends[lane as usize];
                sorted[*end as usize] = row;
                *end += 1;
            }
        }
        Self {
            rows: AllRows::Built(sorted),
            starts,
            pyramids: Vec::new(),
        }
    }

    /// Sorts the rows of each lane by time, for tables that are not sorted.
    pub(crate) fn sort(&mut self, times: Times<'_>) {
        let AllRows::Built(rows) = &mut self.rows else {
            return;
        };
        for bounds in self.starts.windows(2) {
            let lane = bounds[0] as usize..bounds[1] as usize;
            rows[lane].sort_by_key(|row| times.start(*row));
        }
    }

    /// Builds the levels of all long lanes.
    pub(crate) fn build(&mut self, times: Times<'_>, origin: i64, threads: usize) {
        let long = self.with_rows(MIN_ROWS);
        let built = parallel::map(&long, threads, |lane| {
            build(self.rows(*lane), times, origin)
        });
        self.pyramids = long.into_iter().zip(built).collect();
    }

    /// Returns the lanes with at least this many rows.
    pub(crate) fn with_rows(&self, least: usize) -> Vec<u32> {
        let lanes = self.starts.len().saturating_sub(1) as u32;
        let long = (0..lanes).filter(|lane| self.rows(*lane).len() >= least);
        long.collect()
    }

    /// Returns true if no lane has rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() == 0
    }

    /// Returns the rows of a lane.
    pub(crate) fn rows(&self, lane: u32) -> Rows<'_> {
        let lane = lane as usize;
        let bounds = self.starts.get(lane..lane + 2);
        let lane = bounds.map_or(0..0, |bounds| bounds[0]..bounds[1]);
        self.rows.lane(lane)
    }

    /// Returns the rows of a lane that start or continue in a window.
    pub(crate) fn rows_within(&self, lane: u32, window: Range<i64>, times: Times<'_>) -> Rows<'_> {
        let rows = self.rows(lane);
        let mut first = rows.partition_point(|row| times.start(row) < window.start);
        if let Some(before) = first.checked_sub(1)
            && rows
                .get(before)
                .is_some_and(|row| times.end(row) > window.start)
        {
            first = before;
        }
        let rows = rows.behind(first);
        let end = rows.partition_point(|row| times.start(row) < window.end);
        rows.before(end)
    }

    /// Calls `each` with the slices of a lane to show in a window, sorted by time. A slice shorter
    /// than a step of 2^`level` ns is merged with its neighbours in the same step.
    pub(crate) fn show(
        &self,
        lane: u32,
        window: Range<i64>,
        level: u8,
        times: Times<'_>,
        mut each: impl FnMut(Shown),
    ) {
        let pyramid = self
            .pyramids
            .binary_search_by_key(&lane, |(lane, _)| *lane)
            .ok()
            .map_or(&[][..], |end| &self.pyramids[end].1);
        let coarsest = pyramid.iter().rev().find(|stored| stored.shift <= level);
        if let Some(stored) = coarsest {
            return stored.show(self.rows(lane), window, times, each);
        }
        for row in self.rows_within(lane, window, times).iter() {
            each(Shown::single(row, times));
        }
    }

    /// Returns the memory of the lanes in bytes.
    pub(crate) fn memory(&self) -> usize {
        let levels = self.pyramids.iter().flat_map(|(_, levels)| levels);
        self.rows.memory() + 4 * self.starts.capacity() + levels.map(Level::memory).sum::<usize>()
    }

    /// Writes the rows of the lanes, without levels.
    pub(crate) fn save_rows(&self, writer: &mut Writer<'_>) -> io::Result<()> {
        self.rows.save(writer)?;
        writer.number(self.starts.len() as u64);
        let mut before = 0;
        for start in &self.starts {
            writer.number(u64::from(start - before));
            before = *start;
        }
        Ok(())
    }

    /// Reads lanes that were written without levels.
    pub(crate) fn load_rows(reader: &mut Reader) -> io::Result<Self> {
        let rows = AllRows::load(reader)?;
        let mut starts = Vec::new();
        let mut before = 0_u32;
        for _ in 0..reader.count()? {
            let more = reader.small()?;
            before = before.checked_add(more).ok_or(io::ErrorKind::InvalidData)?;
            starts.push(before);
        }
        if before as usize != rows.len() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Self {
            rows,
            starts,
            pyramids: Vec::new(),
        })
    }

    /// Writes the lanes. `label` returns the label of a row.
    pub(crate) fn save(
        &self,
        writer: &mut Writer<'_>,
        times: Times<'_>,
        label: impl Fn(u32) -> Label,
    ) -> io::Result<()> {
        self.save_rows(writer)?;
        let mut pyramids = self.pyramids.iter().peekable();
        let lanes = self.with_rows(1);
        writer.number(lanes.len() as u64);
        for lane in lanes {
            let levels = pyramids.next_if(|(of, _)| *of == lane);
            let levels = levels.map_or(&[][..], |(_, levels)| levels);
            let rows = self.rows(lane);
            // Pictures of few rows need not read all tables where these are.
            let has_rows = rows.len() < MAX_CODED;
            writer.number(lane.into());
            writer.number(levels.len() as u64 + u64::from(has_rows));
            if has_rows {
                Level::save_rows(rows, times, &label, writer)?;
            }
            for level in levels {
                level.save(rows, times, &label, writer)?;
            }
        }
        Ok(())
    }

    /// Reads written lanes. Rows and levels are read when they are needed.
    pub(crate) fn load(reader: &mut Reader) -> io::Result<Self> {
        let mut lanes = Self::load_rows(reader)?;
        for _ in 0..reader.count()? {
            let lane = reader.small()?;
            let levels = 0..reader.count()?;
            let levels = levels.map(|_| Level::load(reader));
            let levels = levels.collect::<io::Result<_>>()?;
            lanes.pyramids.push((lane, levels));
        }
        Ok(lanes)
    }
}
