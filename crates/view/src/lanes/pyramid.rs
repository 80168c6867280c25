//! The levels of one lane. A level divides the rows of the lane into runs. A run is a single long
//! row, or all rows within one step that are shorter than a step.
//!
//! A level is kept only if it has at most half as many runs as the finer one. All levels of a lane
//! together then have no more runs than the lane has rows, and at most twice as many runs are shown
//! as necessary.

use std::io;
use std::ops::Range;

use ferretto_tables::saved::{Reader, Writer};

use super::{Label, Rows, Shown, Times};
use crate::coded::Coded;

/// The number of rows from which a lane has levels.
pub(super) const MIN_ROWS: usize = 256;

/// One level of a lane.
#[derive(Debug)]
pub(super) struct Level {
    /// Steps are 2^`shift` ns.
    pub(super) shift: u8,
    runs: Runs,
}

/// The runs of a level.
#[derive(Debug)]
enum Runs {
    /// Those of an imported trace, of which the tables know more.
    Built {
        /// The index of the first row of each run.
        firsts: Vec<u32>,
        /// The index of the longest row of each run.
        longest: Vec<u32>,
        /// The share of the time of each run that its rows fill.
        load: Vec<u8>,
    },
    /// Those of an index.
    Saved(Coded),
}

impl Level {
    /// Calls `each` with the runs to show in a window, in a lane of these rows.
    pub(super) fn show(
        &self,
        rows: Rows<'_>,
        window: Range<i64>,
        times: Times<'_>,
        mut each: impl FnMut(Shown),
    ) {
        let firsts = match &self.runs {
            Runs::Saved(coded) => return coded.show(&window, each),
            Runs::Built { firsts, .. } => firsts,
        };
        let start = |first: u32| {
            rows.get(first as usize)
                .map_or(i64::MAX, |row| times.start(row))
        };
        let mut run = firsts.partition_point(|first| start(*first) < window.start);
        if let Some(before) = run
            .checked_sub(1)
            .and_then(|before| self.built(before, rows, times))
            && before.end > window.start
        {
            run -= 1;
        }
        while run < firsts.len() && start(firsts[run]) < window.end {
            if let Some(shown) = self.built(run, rows, times) {
                each(shown);
            }
            run += 1;
        }
    }

    /// Returns a run of an imported trace; `None` if there is none.
    fn built(&self, run: usize, rows: Rows<'_>, times: Times<'_>) -> Option<Shown> {
        let Runs::Built {
            firsts,
            longest,
            load,
        } = &self.runs
        else {
            return None;
        };
        let first = *firsts.get(run)?;
        let behind = firsts
            .get(run + 1)
            .map_or(rows.len(), |next| *next as usize);
        Some(Shown {
            start: times.start(rows.get(first as usize)?),
            end: times.end(rows.get(behind.saturating_sub(1))?),
            row: rows.get(longest[run] as usize)?,
            count: behind.saturating_sub(first as usize) as u32,
            load: load[run],
            known: None,
        })
    }

    pub(super) fn memory(&self) -> usize {
        match &self.runs {
            Runs::Built {
                firsts,
                longest,
                load,
            } => 4 * (firsts.capacity() + longest.capacity()) + load.capacity(),
            Runs::Saved(coded) => coded.memory(),
        }
    }

    /// Writes an imported level.
    pub(super) fn save(
        &self,
        rows: Rows<'_>,
        times: Times<'_>,
        label: impl Fn(u32) -> Label,
        writer: &mut Writer<'_>,
    ) -> io::Result<()> {
        writer.number(self.shift.into());
        let runs = (0..).map_while(|run| self.built(run, rows, times));
        Coded::save(runs.map(|run| run.with_known(times, &label)), writer)
    }

    /// Writes the single rows of a lane as a level.
    pub(super) fn save_rows(
        rows: Rows<'_>,
        times: Times<'_>,
        label: impl Fn(u32) -> Label,
        writer: &mut Writer<'_>,
    ) -> io::Result<()> {
        writer.number(0);
        let rows = rows.iter().map(|row| Shown::single(row, times));
        Coded::save(rows.map(|row| row.with_known(times, &label)), writer)
    }

    pub(super) fn load(reader: &mut Reader) -> io::Result<Self> {
        Ok(Self {
            shift: reader.small()?,
            runs: Runs::Saved(Coded::load(reader)?),
        })
    }
}

/// A run under construction.
#[derive(Debug, Clone, Copy)]
struct Run {
    first: u32,
    longest: u32,
    count: u32,
    start: i64,
    end: i64,
    /// The time that rows fill.
    filled: i64,
    /// The length of the longest row.
    length: i64,
}

/// Returns the levels of a lane with these rows, from the finest to the coarsest.
pub(super) fn build(rows: Rows<'_>, times: Times<'_>, origin: i64) -> Vec<Level> {
    let mut runs: Vec<Run> = rows
        .iter()
        .enumerate()
        .map(|(index, row)| {
            let (start, end) = (times.start(row), times.end(row));
            Run {
                first: index as u32,
                longest: index as u32,
                count: 1,
                start,
                end,
                filled: end.saturating_sub(start),
                length: end.saturating_sub(start),
            }
        })
        .collect();
    let mut levels = Vec::new();
    let mut merged = Vec::new();
    let mut shift = 0;
    while runs.len() >= MIN_ROWS / 4 {
        let Some(next) = promising(runs.iter().map(|run| run.start), shift + 1) else {
            break;
        };
        shift = next;
        merge(&runs, shift, origin, &mut merged);
        if merged.len() * 2 <= runs.len() {
            std::mem::swap(&mut runs, &mut merged);
            levels.push(Level {
                shift,
                runs: Runs::Built {
                    firsts: runs.iter().map(|run| run.first).collect(),
                    longest: runs.iter().map(|run| run.longest).collect(),
                    load: runs.iter().map(load).collect(),
                },
            });
        }
    }
    levels
}

/// Returns the first level, starting with `from`, at which half of the runs with these starts may
/// be merged, since merged runs start within one step.
pub(crate) fn promising(starts: impl Iterator<Item = i64>, from: u8) -> Option<u8> {
    let mut pairs = [0_usize; 65];
    let (mut before, mut runs) = (None, 0);
    for start in starts {
        if let Some(before) = before.replace(start) {
            let apart = start.saturating_sub(before).max(0) as u64;
            pairs[(u64::BITS - apart.leading_zeros()) as usize] += 1;
        }
        runs += 1;
    }
    let mut merged = 0;
    for (level, count) in pairs.iter().enumerate().take(63) {
        merged += count;
        if level >= usize::from(from) && merged * 2 >= runs {
            return Some(level as u8);
        }
    }
    None
}

fn merge(runs: &[Run], shift: u8, origin: i64, merged: &mut Vec<Run>) {
    merged.clear();
    let step = |run: &Run| run.start.saturating_sub(origin) >> shift;
    let is_short = |run: &Run| run.count > 1 || run.length >> shift == 0;
    for run in runs {
        if let Some(last) = merged.last_mut()
            && step(last) == step(run)
            && is_short(last)
            && is_short(run)
        {
            last.count += run.count;
            last.end = last.end.max(run.end);
            last.filled = last.filled.saturating_add(run.filled);
            if run.length > last.length {
                (last.longest, last.length) = (run.longest, run.length);
            }
        } else {
            merged.push(*run);
        }
    }
}

fn load(run: &Run) -> u8 {
    let span = run.end.saturating_sub(run.start);
    if span <= 0 {
        return u8::MAX;
    }
    (run.filled as f64 / span as f64 * 255.0).min(255.0) as u8
}
