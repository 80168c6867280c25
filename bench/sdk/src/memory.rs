//! The memory usage of tracing.

use std::sync::Barrier;

use crate::{Side, another, work};

/// The argument that makes this program measure the side whose name follows.
pub(crate) const ARGUMENT: &str = "memory-of-";

const THREADS: usize = 400;

/// Returns the output of this program when it measures only this side.
pub(crate) fn in_another_process(side: &str) -> String {
    let output = another::output(&[&format!("{ARGUMENT}{side}")]);
    output.trim().to_owned()
}

/// Returns the resident memory that a thread's first event takes, in bytes: the writer with its
/// state, and its chunk of the memory shared with the service.
pub(crate) fn of_a_writer(side: &mut dyn Side) -> f64 {
    let Some(instant) = work(side, "instant") else {
        return f64::NAN;
    };
    side.flush();
    let [before, traced, after] = [(); 3].map(|()| Barrier::new(THREADS + 1));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                before.wait();
                before.wait();
                instant(1);
                traced.wait();
                after.wait();
            });
        }
        before.wait();
        let quiet = resident();
        before.wait();
        traced.wait();
        let tracing = resident();
        after.wait();
        tracing.saturating_sub(quiet) as f64 / THREADS as f64
    })
}

/// Returns the resident memory of this process, in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}
