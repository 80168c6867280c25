//! A picture of a time as text.

use std::ops;

use ferretto_mcp::Answer;
use ferretto_text::terminal::shown;
use ferretto_why::{State, StateKind, Why};
use serde_json::json;

use super::loaded::Loaded;
use super::slices::ThreadSlices;
use crate::moment::Range;

/// The characters of a row, if the caller does not tell.
const WIDTH: usize = 100;
/// The threads that are drawn, those that ran the longest.
const MAX_THREADS: usize = 50;

/// The picture that a caller wants.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    pub(super) range: Option<Range>,
    pub(super) thread: Option<&'a str>,
    pub(super) pid: Option<i64>,
    pub(super) width: Option<usize>,
}

pub(super) fn answer(loaded: &mut Loaded, wanted: &Wanted<'_>) -> Result<Answer, String> {
    let name = loaded.name.clone();
    let slices = loaded.slices();
    let why = loaded.why();
    let bounds = &why.trace().tables().trace_bounds;
    let (start, end) = (bounds.start_ts().get(0), bounds.end_ts().get(0));
    let range = match wanted.range {
        Some(range) => range.of(start..end, start),
        None => start..end,
    };
    if range.is_empty() {
        return Err(format!("{name} has no events in this range"));
    }
    let picture = Picture {
        why: &why,
        slices: &slices,
        range: range.clone(),
        width: wanted.width.unwrap_or(WIDTH),
    };
    let threads = picture.threads(wanted);
    let mut items = Vec::new();
    for (_, thread) in &threads {
        let states = picture.states(*thread);
        let tables = why.trace().tables();
        let process = tables.thread.upid().get(*thread);
        let rows = picture.rows(*thread).into_iter();
        let rows: Vec<String> = rows.map(|row| row.into_iter().collect()).collect();
        items.push(json!({
            "thread": why.thread_name(*thread),
            "tid": tables.thread.tid().get(*thread),
            "pid": process.map(|process| tables.process.pid().get(process)),
            "states": states,
            "slices": rows,
        }));
    }
    let head = json!({
        "file": name,
        "start_ns": range.start,
        "end_ns": range.end,
        "ns_per_character": (range.end - range.start) / picture.width as i64,
        "legend": "states: # running, + waiting for a CPU, . sleeping, D waiting for a disk or the kernel, ? lost, space: not there. slices: [name]",
    });
    Ok(Answer::new(head, items))
}

struct Picture<'a> {
    why: &'a Why<'a>,
    slices: &'a ThreadSlices,
    range: ops::Range<i64>,
    width: usize,
}

impl Picture<'_> {
    /// Returns the column of a time.
    fn column(&self, time: i64) -> usize {
        let time = time.clamp(self.range.start, self.range.end) - self.range.start;
        let length = self.range.end - self.range.start;
        let column = match time.checked_mul(self.width as i64) {
            Some(product) => product / length,
            None => (i128::from(time) * self.width as i128 / i128::from(length)) as i64,
        };
        usize::try_from(column).unwrap_or(0).min(self.width)
    }

    /// Returns the selected threads with the time that they were active, the longest first.
    fn threads(&self, wanted: &Wanted<'_>) -> Vec<(i64, u32)> {
        let why = self.why;
        let tables = why.trace().tables();
        let is_named = wanted.thread.is_some() || wanted.pid.is_some();
        let mut threads = Vec::new();
        for thread in 0..tables.thread.len() {
            let process = tables.thread.upid().get(thread);
            let pid = process.map(|process| tables.process.pid().get(process));
            let is_wanted = wanted.thread.is_none_or(|name| {
                why.thread_name(thread) == name
                    || tables.thread.tid().get(thread).to_string() == name
            }) && wanted.pid.is_none_or(|wanted| pid == Some(wanted));
            if !is_wanted {
                continue;
            }
            let mut active = 0;
            if thread < why.schedule().threads() {
                if !is_named && why.is_kernel_thread(thread) {
                    continue;
                }
                for state in self.states_in_range(thread) {
                    let from = state.start.max(self.range.start);
                    let to = state.end.min(self.range.end);
                    let is_active = matches!(state.kind, StateKind::Running | StateKind::Runnable);
                    if is_active && from < to {
                        active += to - from;
                    }
                }
            }
            // Named threads are drawn without slices, too.
            if active > 0 || is_named || self.slices_of(thread).next().is_some() {
                threads.push((active, thread));
            }
        }
        threads.sort_by_key(|(active, thread)| (-active, *thread));
        threads.truncate(MAX_THREADS);
        threads
    }

    /// Returns a character for each column: the state that took the most of its time.
    fn states(&self, thread: u32) -> String {
        if thread >= self.why.schedule().threads() {
            return String::new();
        }
        let mut row = vec![' '; self.width];
        let mut taken = vec![0; self.width];
        let length = self.range.end - self.range.start;
        for state in self.states_in_range(thread) {
            let character = match state.kind {
                StateKind::Running => '#',
                StateKind::Runnable => '+',
                StateKind::Blocked(b'D') => 'D',
                StateKind::Blocked(_) => '.',
                StateKind::Unborn | StateKind::Ended => ' ',
                StateKind::Lost => '?',
            };
            let last = self.column(state.end.saturating_sub(1)).min(self.width - 1);
            for column in self.column(state.start)..=last {
                let at = |column: usize| {
                    self.range.start
                        + (i128::from(length) * column as i128 / self.width as i128) as i64
                };
                let (from, to) = (at(column).max(state.start), at(column + 1).min(state.end));
                if to - from > taken[column] {
                    (taken[column], row[column]) = (to - from, character);
                }
            }
        }
        row.into_iter().collect()
    }

    /// Returns the states of a thread that overlap the range.
    fn states_in_range(&self, thread: u32) -> &[State] {
        let states = self.why.schedule().states(thread);
        let from = states.partition_point(|state| state.end <= self.range.start);
        let to = states.partition_point(|state| state.start < self.range.end);
        states.get(from..to).unwrap_or_default()
    }

    /// Returns the slices of a thread that overlap the range: row, start and end.
    fn slices_of(&self, thread: u32) -> impl Iterator<Item = (u32, i64, i64)> {
        self.slices.of(self.why.trace(), thread, &self.range)
    }

    /// Draws the slices of a thread, a row for each depth.
    fn rows(&self, thread: u32) -> Vec<Vec<char>> {
        let strings = self.why.trace().strings();
        let slices = &self.why.trace().tables().slice;
        let mut rows = Vec::new();
        for (row, start, end) in self.slices_of(thread) {
            let depth = slices.depth().get(row) as usize;
            while rows.len() <= depth {
                rows.push(vec![' '; self.width]);
            }
            let from = self.column(start).min(self.width - 1);
            let to = self.column(end).clamp(from + 1, self.width);
            let cells = &mut rows[depth][from..to];
            cells[0] = '[';
            if let [_, inner @ .., last] = cells {
                let name = shown(strings.text(slices.name().get(row)));
                let mut name = name.chars();
                inner.fill_with(|| name.next().unwrap_or('-'));
                *last = ']';
            }
        }
        rows
    }
}
