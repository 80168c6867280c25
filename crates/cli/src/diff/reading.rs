//! Reading recordings, several at a time.

use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Result, anyhow, bail};
use ferretto_diff::{Recording, TABLES};
use ferretto_tables::Options;

use crate::moment::Range;
use crate::read::{self, Extent};

/// The maximum sum of the sizes of files that are read at a time: reading takes up to twice their
/// size.
const MAX_BYTES: u64 = 224 << 20;

/// A recording to read.
pub(super) struct Source<'a> {
    pub(super) file: &'a PathBuf,
    /// The part that is compared.
    pub(super) range: Option<Range>,
}

/// Reads the features of recordings, on as many threads as there are CPUs and memory for.
///
/// # Errors
///
/// The error of the first recording that has one.
pub(super) fn recordings(sources: &[Source<'_>]) -> Result<(Vec<Recording>, Extent)> {
    let workers = at_a_time(sources);
    let all = workers_of(sources.len(), workers, |at| {
        recording(&sources[at], workers)
    });
    let mut extent = Extent::Whole;
    let mut recordings = Vec::with_capacity(sources.len());
    for result in all {
        let (recording, of_file) = result?;
        extent = extent.and(of_file);
        recordings.push(recording);
    }
    Ok((recordings, extent))
}

/// Returns the number of recordings that are read at a time.
fn at_a_time(sources: &[Source<'_>]) -> usize {
    let size = |source: &Source<'_>| fs::metadata(source.file).map_or(u64::MAX, |it| it.len());
    let largest = sources.iter().map(size).max().unwrap_or(0);
    let fit = usize::try_from(MAX_BYTES / largest.max(1)).unwrap_or(usize::MAX);
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    fit.min(cpus).min(sources.len()).max(1)
}

/// Returns the results of `0..count`, in their order, computed by this many threads.
fn workers_of<T: Send>(
    count: usize,
    workers: usize,
    result: impl Fn(usize) -> Result<T> + Sync,
) -> Vec<Result<T>> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<T>>>> = (0..count).map(|_| Mutex::new(None)).collect();
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(slot) = results.get(at) else {
                return;
            };
            let result = result(at);
            if let Ok(mut slot) = slot.lock() {
                *slot = Some(result);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..workers {
            // Without a thread, the others do its work.
            let _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    let value = |slot: Mutex<Option<Result<T>>>| slot.into_inner().ok().flatten();
    let missing = || Err(anyhow!("a recording was not read"));
    results
        .into_iter()
        .map(|slot| value(slot).unwrap_or_else(missing))
        .collect()
}

/// Reads one of several recordings that are read at a time.
fn recording(source: &Source<'_>, at_a_time: usize) -> Result<(Recording, Extent)> {
    let all = Options::default();
    let options = Options {
        tables: TABLES,
        threads: all.threads.div_ceil(at_a_time),
        memory: all.memory / at_a_time,
        ..all
    };
    let (name, trace, extent) = read::tables_with(source.file, &options)?;
    let bounds = &trace.tables().trace_bounds;
    let (start, end) = (bounds.start_ts().get(0), bounds.end_ts().get(0));
    let range = source.range.map(|range| range.of(start..end, start));
    if range.as_ref().is_some_and(std::ops::Range::is_empty) {
        bail!("{name} has no events in this range");
    }
    Ok((Recording::new(&trace, range), extent))
}
