//! The slices of threads, prepared for pictures of a time.

use std::ops::Range;

use ferretto_tables::Trace;

/// The rows of a block, for which the latest end is kept.
const BLOCK: usize = 256;

/// The nested slices of a thread that are drawn.
const MAX_DEPTH: u32 = 4;

/// The slices of each thread that are drawn, to find those of a time.
#[derive(Debug)]
pub(super) struct ThreadSlices {
    /// The beginning of each thread's slices in `rows`, and the end of the last one's.
    starts: Vec<u32>,
    /// The rows of `slice` by thread, in the order of their times.
    rows: Vec<u32>,
    /// The latest end in each block of `rows`.
    last_ends: Vec<i64>,
}

impl ThreadSlices {
    /// Returns the slices of a trace.
    pub(super) fn new(trace: &Trace) -> Self {
        let tables = trace.tables();
        let slices = &tables.slice;
        let threads: Vec<Option<u32>> = (0..tables.track.len())
            .map(|track| tables.track.utid().get(track))
            .collect();
        let thread_of = |row: u32| {
            let thread = threads.get(slices.track_id().get(row) as usize);
            thread.copied().flatten()
        };
        let each = |each: &mut dyn FnMut(u32, u32)| {
            for row in 0..slices.len() {
                if slices.depth().get(row) < MAX_DEPTH
                    && let Some(thread) = thread_of(row)
                {
                    each(thread, row);
                }
            }
        };
        let count = tables.thread.len() as usize;
        let mut starts = vec![0; count + 1];
        each(&mut |thread, _| starts[thread as usize + 1] += 1);
        for thread in 0..count {
            starts[thread + 1] += starts[thread];
        }
        let mut next = starts.clone();
        let mut rows = vec![0; starts[count] as usize];
        each(&mut |thread, row| {
            let next = &mut next[thread as usize];
            rows[*next as usize] = row;
            *next += 1;
        });
        let last_end = |rows: &[u32]| rows.iter().map(|row| end_of(trace, *row)).max();
        let last_ends = rows.chunks(BLOCK).filter_map(last_end).collect();
        Self {
            starts,
            rows,
            last_ends,
        }
    }

    /// Returns the maximum bytes of memory of a trace's slices.
    pub(super) fn max_memory(trace: &Trace) -> usize {
        let tables = trace.tables();
        let rows = tables.slice.len() as usize;
        let starts = tables.thread.len() as usize + 1;
        (starts + rows) * size_of::<u32>() + rows.div_ceil(BLOCK) * size_of::<i64>()
    }

    /// Returns the bytes of memory.
    pub(super) fn memory(&self) -> usize {
        size_of_val(&self.starts[..])
            + size_of_val(&self.rows[..])
            + size_of_val(&self.last_ends[..])
    }

    /// Returns the slices of a thread that are not over before a range and begin before its end, in
    /// the order of their times: the row, the start and the end of each.
    pub(super) fn of<'a>(
        &'a self,
        trace: &'a Trace,
        thread: u32,
        range: &Range<i64>,
    ) -> impl Iterator<Item = (u32, i64, i64)> + 'a {
        let range = range.clone();
        let starts = trace.tables().slice.ts();
        let [first, end] =
            [thread as usize, thread as usize + 1].map(|at| self.starts[at] as usize);
        let before = self.rows[first..end].partition_point(|row| starts.get(*row) < range.end);
        let end = first + before;
        let mut at = first;
        std::iter::from_fn(move || {
            while at < end {
                if at.is_multiple_of(BLOCK) && self.last_ends[at / BLOCK] < range.start {
                    at += BLOCK;
                    continue;
                }
                let row = self.rows[at];
                at += 1;
                let slice_end = end_of(trace, row);
                if slice_end >= range.start {
                    return Some((row, starts.get(row), slice_end));
                }
            }
            None
        })
    }
}

/// Returns the end of a slice. One that does not end in the trace goes on.
fn end_of(trace: &Trace, row: u32) -> i64 {
    let slices = &trace.tables().slice;
    match slices.dur().get(row) {
        dur @ 0.. => slices.ts().get(row).saturating_add(dur),
        _ => i64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use ferretto_tables::Options;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_slices_of_a_range_are_those_that_a_scan_finds() {
        let mut events = vec![json!({"ph": "B", "name": "open", "pid": 1, "tid": 1, "ts": 5})];
        for at in 0..3000u64 {
            let (ts, dur) = (at * 10, [3, 7, 400, 9000][(at * at % 7 % 4) as usize]);
            let tid = at % 3 + 1;
            events.push(json!({
                "ph": "X", "name": "work", "pid": 1, "tid": tid, "ts": ts, "dur": dur,
            }));
        }
        let text = serde_json::to_vec(&events).expect("JSON");
        let trace = Trace::read(&text[..], &Options::default()).expect("a trace");
        let tables = trace.tables();
        let slices = &tables.slice;
        let all = ThreadSlices::new(&trace);
        let end = trace.tables().trace_bounds.end_ts().get(0);
        let mut found = 0;
        for range in [
            0..end + 1,
            0..1,
            end / 2..end / 2 + 20_000,
            end - 5..end + 9,
            7..7,
        ] {
            for thread in 0..tables.thread.len() {
                let expected: Vec<(u32, i64, i64)> = (0..slices.len())
                    .map(|row| (row, slices.ts().get(row), end_of(&trace, row)))
                    .filter(|(row, start, end)| {
                        let track = slices.track_id().get(*row);
                        tables.track.utid().get(track) == Some(thread)
                            && slices.depth().get(*row) < MAX_DEPTH
                            && *start < range.end
                            && *end >= range.start
                    })
                    .collect();
                let of_range: Vec<_> = all.of(&trace, thread, &range).collect();
                assert_eq!(of_range, expected, "{thread} {range:?}");
                found += expected.len();
            }
        }
        assert!(found > 1000, "{found}");
        assert!(all.memory() >= all.rows.len() * 4);
    }
}
