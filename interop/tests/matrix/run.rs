//! Runs cells of the matrix in parallel, because their programs mostly sleep, and prints the
//! results.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The number of parallel cells per processor.
const CELLS_A_PROCESSOR: usize = 4;

/// A scenario in a cast.
pub(crate) struct Cell {
    pub(crate) name: String,
    /// The reason why it cannot run.
    pub(crate) exception: Option<&'static str>,
    pub(crate) play: Box<dyn Fn() + Send + Sync>,
}

/// The result of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    Failed,
    Exception,
    /// It was not selected.
    NotPlayed,
}

/// The options on the command line, named like those of Rust's test harness.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) is_list: bool,
    is_exact: bool,
    filters: Vec<String>,
    threads: Option<usize>,
}

impl Options {
    pub(crate) fn from_arguments() -> Self {
        let mut options = Self::default();
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--list" => options.is_list = true,
                "--exact" => options.is_exact = true,
                "--test-threads" => options.threads = arguments.next().and_then(|n| n.parse().ok()),
                other if other.starts_with('-') => {
                    let number = other.strip_prefix("--test-threads=");
                    options.threads = number.and_then(|n| n.parse().ok()).or(options.threads);
                }
                _ => options.filters.push(argument),
            }
        }
        options
    }

    fn asks_for(&self, name: &str) -> bool {
        let fits = |filter: &String| {
            if self.is_exact {
                name == filter
            } else {
                name.contains(filter)
            }
        };
        self.filters.is_empty() || self.filters.iter().any(fits)
    }

    fn threads(&self) -> usize {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        self.threads
            .unwrap_or(processors * CELLS_A_PROCESSOR)
            .max(1)
    }
}

thread_local! {
    /// The location and message of this thread's last panic.
    static COMPLAINT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs all selected cells and prints the results.
pub(crate) fn all(cells: &[Cell], options: &Options) -> Vec<Outcome> {
    panic::set_hook(Box::new(|info| {
        COMPLAINT.with_borrow_mut(|complaint| *complaint = info.to_string());
    }));
    let outcomes = Mutex::new(vec![Outcome::NotPlayed; cells.len()]);
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..options.threads() {
            scope.spawn(|| {
                while let Some((number, cell)) = take(cells, &next) {
                    if options.asks_for(&cell.name) {
                        let outcome = play(cell);
                        outcomes.lock().expect("the lock is not poisoned")[number] = outcome;
                    }
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().expect("the lock is not poisoned");
    drop(panic::take_hook());
    summarize(&outcomes);
    outcomes
}

fn take<'a>(cells: &'a [Cell], next: &AtomicUsize) -> Option<(usize, &'a Cell)> {
    let number = next.fetch_add(1, Ordering::Relaxed);
    Some((number, cells.get(number)?))
}

fn play(cell: &Cell) -> Outcome {
    if let Some(reason) = cell.exception {
        println!("test {} ... not supported: {reason}", cell.name);
        return Outcome::Exception;
    }
    if panic::catch_unwind(AssertUnwindSafe(|| (cell.play)())).is_ok() {
        println!("test {} ... ok", cell.name);
        return Outcome::Passed;
    }
    let complaint = COMPLAINT.take();
    println!("test {} ... FAILED\n{complaint}", cell.name);
    Outcome::Failed
}

fn summarize(outcomes: &[Outcome]) {
    let count = |outcome| outcomes.iter().filter(|found| **found == outcome).count();
    let failed = count(Outcome::Failed);
    let result = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {result}. {} passed; {failed} failed; {} not supported; {} filtered out",
        count(Outcome::Passed),
        count(Outcome::Exception),
        count(Outcome::NotPlayed),
    );
}
