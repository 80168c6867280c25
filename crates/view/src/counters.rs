//! Counters at every level of detail.

use std::io;
use std::ops::Range;

use ferretto_tables::saved::{Reader, Writer};
use ferretto_tables::schema::CounterTable;

use crate::coded::{self, Coded};
use crate::lanes::{Lanes, MAX_CODED, Rows, promising};
use crate::parallel;
use crate::varints::{self, Varints};

/// The number of values from which a counter has levels.
const MIN_VALUES: usize = 256;

/// A value to show, or several merged ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    pub(crate) time: i64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) last: f64,
    /// The row of the last value.
    pub(crate) row: u32,
}

impl coded::Run for Point {
    fn start(&self) -> i64 {
        self.time
    }

    /// A value lasts until the next one.
    fn reaches(&self, _: &Range<i64>) -> bool {
        true
    }

    fn put(&self, before: Option<&Self>, bytes: &mut Vec<u8>) {
        let (time, row) = before.map_or((0, 0), |before| (before.time, before.row));
        varints::put_signed(bytes, self.time.wrapping_sub(time));
        varints::put_signed(bytes, i64::from(self.row) - i64::from(row));
        for value in [self.last, self.min, self.max] {
            bytes.extend_from_slice(&value.to_le_bytes());
        }
    }

    fn take(before: Option<&Self>, varints: &mut Varints<'_>) -> Self {
        let (time, row) = before.map_or((0, 0), |before| (before.time, before.row));
        Self {
            time: varints.signed().wrapping_add(time),
            row: varints.signed().wrapping_add(row.into()) as u32,
            last: varints.real(),
            min: varints.real(),
            max: varints.real(),
        }
    }
}

/// One level of a counter.
#[derive(Debug)]
struct Level {
    shift: u8,
    runs: Runs,
}

/// The runs of values in the same step.
#[derive(Debug)]
enum Runs {
    /// Those of an imported trace, of which the table knows more.
    Built {
        firsts: Vec<u32>,
        /// The index of the least value of each run.
        least: Vec<u32>,
        /// The index of the greatest value of each run.
        greatest: Vec<u32>,
    },
    /// Those of an index.
    Saved(Coded),
}

impl Level {
    /// Calls `each` with the points to show in a window, and the one before it, of a counter with
    /// these rows.
    fn show(
        &self,
        rows: Rows<'_>,
        window: &Range<i64>,
        table: &CounterTable,
        mut each: impl FnMut(Point),
    ) {
        let firsts = match &self.runs {
            Runs::Saved(coded) => return coded.show(window, each),
            Runs::Built { firsts, .. } => firsts,
        };
        let time = |index: u32| {
            let row = rows.get(index as usize);
            row.map_or(i64::MAX, |row| table.ts().get(row))
        };
        let first = firsts.partition_point(|first| time(*first) < window.start);
        let runs = (first.saturating_sub(1)..).map_while(|run| self.built(run, rows, table));
        runs.take_while(|point| point.time < window.end)
            .for_each(&mut each);
    }

    /// Returns a run of an imported trace; `None` if there is none.
    fn built(&self, run: usize, rows: Rows<'_>, table: &CounterTable) -> Option<Point> {
        let Runs::Built {
            firsts,
            least,
            greatest,
        } = &self.runs
        else {
            return None;
        };
        let value = |index: u32| Some(table.value().get(rows.get(index as usize)?));
        let first = *firsts.get(run)?;
        let next = firsts.get(run + 1);
        let last = next.map_or(rows.len() as u32, |next| *next);
        let last = last.saturating_sub(1);
        Some(Point {
            time: table.ts().get(rows.get(first as usize)?),
            min: value(least[run])?,
            max: value(greatest[run])?,
            last: value(last)?,
            row: rows.get(last as usize)?,
        })
    }

    fn memory(&self) -> usize {
        match &self.runs {
            Runs::Built {
                firsts,
                least,
                greatest,
            } => 4 * (firsts.capacity() + least.capacity() + greatest.capacity()),
            Runs::Saved(coded) => coded.memory(),
        }
    }
}

/// Returns the point of a single row.
fn single(row: u32, table: &CounterTable) -> Point {
    let value = table.value().get(row);
    Point {
        time: table.ts().get(row),
        min: value,
        max: value,
        last: value,
        row,
    }
}

/// The counters of a trace.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    lanes: Lanes,
    pyramids: Vec<(u32, Vec<Level>)>,
}

impl Counters {
    /// Sorts values by counter. `counter` returns the counter of a track.
    pub(crate) fn new(
        table: &CounterTable,
        counters: usize,
        counter: impl Fn(u32) -> Option<u32>,
    ) -> Self {
        let lane = |row| counter(table.track_id().get(row));
        Self {
            lanes: Lanes::new(table.len(), counters, lane),
            pyramids: Vec::new(),
        }
    }

    /// Builds the levels of all counters with many values.
    pub(crate) fn build(&mut self, table: &CounterTable, origin: i64, threads: usize) {
        let long = self.lanes.with_rows(MIN_VALUES);
        let built = parallel::map(&long, threads, |counter| {
            build(self.rows(*counter), table, origin)
        });
        self.pyramids = long.into_iter().zip(built).collect();
    }

    /// Returns the rows of a counter.
    pub(crate) fn rows(&self, counter: u32) -> Rows<'_> {
        self.lanes.rows(counter)
    }

    /// Calls `each` with the points to show in a window, and the one before it.
    pub(crate) fn show(
        &self,
        counter: u32,
        window: Range<i64>,
        level: u8,
        table: &CounterTable,
        mut each: impl FnMut(Point),
    ) {
        let pyramid = self
            .pyramids
            .binary_search_by_key(&counter, |(counter, _)| *counter)
            .ok()
            .map_or(&[][..], |index| &self.pyramids[index].1);
        if let Some(stored) = pyramid.iter().rev().find(|stored| stored.shift <= level) {
            return stored.show(self.rows(counter), &window, table, each);
        }
        let rows = self.rows(counter);
        let first = rows.partition_point(|row| table.ts().get(row) < window.start);
        let points = rows.behind(first.saturating_sub(1)).iter();
        let points = points.map(|row| single(row, table));
        points
            .take_while(|point| point.time < window.end)
            .for_each(&mut each);
    }

    /// Returns the memory of the levels in bytes.
    pub(crate) fn memory(&self) -> usize {
        let levels = self.pyramids.iter().flat_map(|(_, levels)| levels);
        self.lanes.memory() + levels.map(Level::memory).sum::<usize>()
    }

    /// Writes the counters.
    pub(crate) fn save(&self, table: &CounterTable, writer: &mut Writer<'_>) -> io::Result<()> {
        self.lanes.save_rows(writer)?;
        let mut pyramids = self.pyramids.iter().peekable();
        let counters = self.lanes.with_rows(1);
        writer.number(counters.len() as u64);
        for counter in counters {
            let levels = pyramids.next_if(|(of, _)| *of == counter);
            let levels = levels.map_or(&[][..], |(_, levels)| levels);
            let rows = self.rows(counter);
            let has_rows = rows.len() < MAX_CODED;
            writer.number(counter.into());
            writer.number(levels.len() as u64 + u64::from(has_rows));
            if has_rows {
                writer.number(0);
                Coded::save(rows.iter().map(|row| single(row, table)), writer)?;
            }
            for level in levels {
                writer.number(level.shift.into());
                let runs = (0..).map_while(|run| level.built(run, rows, table));
                Coded::save(runs, writer)?;
            }
        }
        Ok(())
    }

    /// Reads written counters.
    pub(crate) fn load(reader: &mut Reader) -> io::Result<Self> {
        let lanes = Lanes::load_rows(reader)?;
        let mut pyramids = Vec::new();
        for _ in 0..reader.count()? {
            let counter = reader.small()?;
            let mut levels = Vec::new();
            for _ in 0..reader.count()? {
                levels.push(Level {
                    shift: reader.small()?,
                    runs: Runs::Saved(Coded::load(reader)?),
                });
            }
            pyramids.push((counter, levels));
        }
        Ok(Self { lanes, pyramids })
    }
}

#[derive(Debug, Clone, Copy)]
struct Run {
    first: u32,
    time: i64,
    min: (u32, f64),
    max: (u32, f64),
}

fn build(rows: Rows<'_>, table: &CounterTable, origin: i64) -> Vec<Level> {
    let mut runs: Vec<Run> = rows
        .iter()
        .enumerate()
        .map(|(index, row)| {
            let extreme = (index as u32, table.value().get(row));
            Run {
                first: index as u32,
                time: table.ts().get(row),
                min: extreme,
                max: extreme,
            }
        })
        .collect();
    let mut levels = Vec::new();
    let mut shift = 0;
    while runs.len() >= MIN_VALUES / 4 {
        let Some(next) = promising(runs.iter().map(|run| run.time), shift + 1) else {
            break;
        };
        shift = next;
        let merged = merge(&runs, shift, origin);
        if merged.len() * 2 <= runs.len() {
            runs = merged;
            levels.push(Level {
                shift,
                runs: Runs::Built {
                    firsts: runs.iter().map(|run| run.first).collect(),
                    least: runs.iter().map(|run| run.min.0).collect(),
                    greatest: runs.iter().map(|run| run.max.0).collect(),
                },
            });
        }
    }
    levels
}

fn merge(runs: &[Run], shift: u8, origin: i64) -> Vec<Run> {
    let mut merged: Vec<Run> = Vec::new();
    let step = |run: &Run| run.time.saturating_sub(origin) >> shift;
    for run in runs {
        match merged.last_mut() {
            Some(last) if step(last) == step(run) => {
                if run.min.1 < last.min.1 {
                    last.min = run.min;
                }
                if run.max.1 > last.max.1 {
                    last.max = run.max;
                }
            }
            _ => merged.push(*run),
        }
    }
    merged
}
