//! Counters at every level of detail.

use std::io;
use std::ops::Range;

use ferretto_tables::saved::{Array, Reader, Writer};
use ferretto_tables::schema::CounterTable;

use crate::lanes::{Lanes, promising};
use crate::parallel;

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

/// One level of a counter: runs of values in the same step.
#[derive(Debug)]
struct Level {
    shift: u8,
    firsts: Array<u32>,
    /// The index of the least value of each run.
    least: Array<u32>,
    /// The index of the greatest value of each run.
    greatest: Array<u32>,
}

impl Level {
    fn arrays(&self) -> [&Array<u32>; 3] {
        [&self.firsts, &self.least, &self.greatest]
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
    pub(crate) fn rows(&self, counter: u32) -> &[u32] {
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
        let rows = self.rows(counter);
        let time = |index: u32| table.ts().get(rows[index as usize]);
        let value = |index: u32| table.value().get(rows[index as usize]);
        let pyramid = self
            .pyramids
            .binary_search_by_key(&counter, |(counter, _)| *counter)
            .ok()
            .map_or(&[][..], |index| &self.pyramids[index].1);
        let Some(stored) = pyramid.iter().rev().find(|stored| stored.shift <= level) else {
            let first = rows.partition_point(|row| table.ts().get(*row) < window.start);
            for index in first.saturating_sub(1) as u32..rows.len() as u32 {
                if time(index) >= window.end {
                    break;
                }
                let value = value(index);
                each(Point {
                    time: time(index),
                    min: value,
                    max: value,
                    last: value,
                    row: rows[index as usize],
                });
            }
            return;
        };
        let first = stored
            .firsts
            .partition_point(|first| time(*first) < window.start);
        for run in first.saturating_sub(1)..stored.firsts.len() {
            let begins = stored.firsts[run];
            if time(begins) >= window.end {
                break;
            }
            let next = stored.firsts.get(run + 1);
            let last = next.map_or(rows.len() as u32, |next| *next);
            let last = last.saturating_sub(1);
            let (min, max) = (stored.least[run], stored.greatest[run]);
            each(Point {
                time: time(begins),
                min: value(min),
                max: value(max),
                last: value(last),
                row: rows[last as usize],
            });
        }
    }

    /// Returns the memory of the levels in bytes.
    pub(crate) fn memory(&self) -> usize {
        let levels = self.pyramids.iter().flat_map(|(_, levels)| levels);
        let arrays = levels.flat_map(Level::arrays);
        self.lanes.memory() + arrays.map(Array::memory).sum::<usize>()
    }

    /// Writes the counters.
    pub(crate) fn save(&self, writer: &mut Writer<'_>) -> io::Result<()> {
        self.lanes.save(writer)?;
        writer.number(self.pyramids.len() as u64);
        for (counter, levels) in &self.pyramids {
            writer.number((*counter).into());
            writer.number(levels.len() as u64);
            for level in levels {
                writer.number(level.shift.into());
                for array in level.arrays() {
                    array.save(writer)?;
                }
            }
        }
        Ok(())
    }

    /// Reads written counters.
    pub(crate) fn load(reader: &mut Reader) -> io::Result<Self> {
        let lanes = Lanes::load(reader)?;
        let mut pyramids = Vec::new();
        for _ in 0..reader.count()? {
            let counter = reader.small()?;
            let mut levels = Vec::new();
            for _ in 0..reader.count()? {
                levels.push(Level {
                    shift: reader.small()?,
                    firsts: Array::load(reader)?,
                    least: Array::load(reader)?,
                    greatest: Array::load(reader)?,
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

fn build(rows: &[u32], table: &CounterTable, origin: i64) -> Vec<Level> {
    let mut runs: Vec<Run> = rows
        .iter()
        .enumerate()
        .map(|(index, row)| {
            let extreme = (index as u32, table.value().get(*row));
            Run {
                first: index as u32,
                time: table.ts().get(*row),
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
                firsts: runs.iter().map(|run| run.first).collect(),
                least: runs.iter().map(|run| run.min.0).collect(),
                greatest: runs.iter().map(|run| run.max.0).collect(),
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
