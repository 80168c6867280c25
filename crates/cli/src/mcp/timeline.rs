//! A picture of a time as text.

use std::collections::HashMap;
use std::ops;

use ferretto_mcp::Answer;
use ferretto_tables::StringId;
use ferretto_text::terminal::shown;
use ferretto_why::{StateKind, Why};
use serde_json::{Value, json};

use super::loaded::Loaded;
use crate::moment::Range;

/// The characters of a row, if the caller does not tell.
const WIDTH: usize = 100;
/// The threads that are drawn, those that ran the longest.
const MAX_THREADS: usize = 50;
/// The nested slices of a thread that are drawn.
const MAX_DEPTH: u32 = 4;

/// The picture that a caller wants.
pub(super) struct Wanted<'a> {
    pub(super) range: Option<Range>,
    pub(super) thread: Option<&'a str>,
    pub(super) pid: Option<i64>,
    pub(super) width: Option<usize>,
}

pub(super) fn answer(loaded: &mut Loaded, wanted: &Wanted<'_>) -> Result<Answer, String> {
    let name = loaded.name.clone();
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
        range: range.clone(),
        width: wanted.width.unwrap_or(WIDTH),
    };
    let threads = picture.threads(wanted);
    let slices = picture.slices();
    let mut items = Vec::new();
    for (_, thread) in &threads {
        let states = picture.states(*thread);
        let thread_slices = slices.get(thread);
        let tables = why.trace().tables();
        let process = tables.thread.upid().get(*thread);
        let rows = thread_slices
            .map(|slices| picture.rows(slices))
            .unwrap_or_default();
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
    range: ops::Range<i64>,
    width: usize,
}

impl Picture<'_> {
    /// Returns the column of a time.
    fn column(&self, time: i64) -> usize {
        let time = time.clamp(self.range.start, self.range.end) - self.range.start;
        let length = i128::from(self.range.end - self.range.start);
        let column = i128::from(time) * self.width as i128 / length;
        usize::try_from(column).unwrap_or(0).min(self.width)
    }

    /// Returns the selected threads with the time that they were active, the longest first.
    fn threads(&self, wanted: &Wanted<'_>) -> Vec<(i64, u32)> {
        let why = self.why;
        let tables = why.trace().tables();
        let is_named = wanted.thread.is_some() || wanted.pid.is_some();
        let mut threads = Vec::new();
        let slices = self.slices();
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
                for state in why.schedule().states(thread) {
                    let from = state.start.max(self.range.start);
                    let to = state.end.min(self.range.end);
                    let is_active = matches!(state.kind, StateKind::Running | StateKind::Runnable);
                    if is_active && from < to {
                        active += to - from;
                    }
                }
            }
            if active > 0 || slices.contains_key(&thread) || is_named {
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
        for state in self.why.schedule().states(thread) {
            if state.end <= self.range.start || state.start >= self.range.end {
                continue;
            }
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

    /// Returns the slices in the range by thread: depth, start, end and name.
    fn slices(&self) -> HashMap<u32, Vec<(u32, i64, i64, StringId)>> {
        let tables = self.why.trace().tables();
        let slices = &tables.slice;
        let mut all: HashMap<u32, Vec<_>> = HashMap::new();
        for row in 0..slices.len() {
            let start = slices.ts().get(row);
            let end = match slices.dur().get(row) {
                dur @ 0.. => start.saturating_add(dur),
                _ => self.range.end,
            };
            let depth = slices.depth().get(row);
            if end < self.range.start || start >= self.range.end || depth >= MAX_DEPTH {
                continue;
            }
            if let Some(thread) = tables.track.utid().get(slices.track_id().get(row)) {
                let name = slices.name().get(row);
                all.entry(thread)
                    .or_default()
                    .push((depth, start, end, name));
            }
        }
        all
    }

    /// Returns a row for each depth of slices.
    fn rows(&self, slices: &[(u32, i64, i64, StringId)]) -> Vec<Value> {
        let deepest = slices.iter().map(|(depth, ..)| *depth).max().unwrap_or(0);
        let mut rows = vec![vec![' '; self.width]; deepest as usize + 1];
        for (depth, start, end, name) in slices {
            let row = &mut rows[*depth as usize];
            let from = self.column(*start).min(self.width - 1);
            let to = self.column(*end).clamp(from + 1, self.width);
            let name = shown(self.why.trace().strings().text(*name)).into_owned();
            let mut name = name.chars();
            for (at, cell) in row[from..to].iter_mut().enumerate() {
                *cell = match at {
                    0 => '[',
                    at if at + 1 == to - from => ']',
                    _ => name.next().unwrap_or('-'),
                };
            }
        }
        let rows = rows.into_iter();
        rows.map(|row| Value::from(row.into_iter().collect::<String>()))
            .collect()
    }
}
