//! Benchmarks, with upstream's names where upstream has the same. See `bench/README.md`.
//!
//! A [`Group`] is one piece of work, a [`Row`] an implementation of it: `ours`, `upstream_…` if the
//! official core is built in, `memcpy` as the bound. `cargo bench` passes the rows to criterion one
//! after another; the program `report` runs them in turns and prints ratios.

// Calling the official core, which is C++, is the one thing here that needs it.
#![cfg_attr(not(feature = "upstream"), forbid(unsafe_code))]

pub mod chunks;
pub mod cost;
mod cpu_reader;
mod packet_validator;
pub mod service;
mod trace_buffer;
mod trace_writer;
pub mod traces;
#[cfg(feature = "upstream")]
mod upstream;

use std::fmt;
use std::time::{Duration, Instant};

use ferretto_shm::Clock;

/// One piece of work.
#[derive(Debug)]
pub struct Group {
    /// Upstream's name of the benchmark.
    pub name: &'static str,
    /// The target for our row, as a multiple of the speed of upstream's fastest row, if there is
    /// one.
    pub bar: Option<f64>,
    /// The bytes that one iteration actually copies or reads.
    pub bytes: Option<u64>,
    /// The rows, ours first.
    pub rows: Vec<Row>,
}

/// An implementation of a [`Group`].
pub struct Row {
    /// The implementation.
    pub name: &'static str,
    run: Box<dyn FnMut(u64) -> Duration>,
}

impl Row {
    /// Creates a row. The first iteration of `run` may set things up outside the time that it
    /// returns.
    fn new(name: &'static str, run: impl FnMut(u64) -> Duration + 'static) -> Self {
        Self {
            name,
            run: Box::new(run),
        }
    }

    /// Creates a row whose whole work is timed.
    fn timed(name: &'static str, mut work: impl FnMut() + 'static) -> Self {
        Self::new(name, move |times| {
            let start = Instant::now();
            for _ in 0..times {
                work();
            }
            start.elapsed()
        })
    }

    /// Creates a row whose whole work is done by the calling thread. The time is that thread's CPU
    /// time, so that other programs do not count.
    fn of_one_thread(name: &'static str, mut work: impl FnMut() + 'static) -> Self {
        Self::new(name, move |times| {
            let start = Clock::ThreadTime.now();
            for _ in 0..times {
                work();
            }
            Duration::from_nanos(Clock::ThreadTime.now() - start)
        })
    }

    /// Runs `times` iterations and returns their duration.
    pub fn run(&mut self, times: u64) -> Duration {
        (self.run)(times)
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Row")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// All groups. Each allocates its memory when it is created.
pub const GROUPS: &[fn() -> Group] = &[
    trace_buffer::write_single_writer,
    trace_buffer::write_multiple_writers,
    trace_buffer::read,
    trace_buffer::mixed,
    trace_buffer::patch_last,
    trace_buffer::patch_tenth,
    trace_buffer::patch_missing,
    packet_validator::validate_packets,
    cpu_reader::switches_1,
    cpu_reader::switches_8,
    cpu_reader::switches_64,
    cpu_reader::compact,
    cpu_reader::prints,
    trace_writer::one_thread,
    trace_writer::two_threads,
    trace_writer::eight_threads,
];
