//! Recordings come and go while eight threads trace.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};

use common::numbered::{self, amount};
use common::{LIMIT, Service, config, source, start, stop_trace};
use ferretto_client::Consumer;

const THREADS: u64 = 8;

/// The most the process may grow by while recordings come and go, in bytes: the allocator does not
/// give all memory back.
const GROWTH: u64 = 16 << 20;

/// The resident memory of this process, in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}

#[test]
fn recordings_that_come_and_go_leave_nothing_behind() {
    let service = Service::start();
    let options = ferretto::Options::new().address(service.producers.clone());
    options.wait(LIMIT).init().unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let done = &done;
            scope.spawn(move || {
                let mut number = 0;
                while !done.load(Ordering::Relaxed) {
                    numbered::write(thread, number..number + 10);
                    number += 10;
                    std::thread::yield_now();
                }
            });
        }
        let _stops = Stops(&done);
        let rounds = amount(60, 1000);
        let mut after_some = 0;
        for round in 0..rounds {
            if round == rounds / 3 {
                after_some = resident();
            }
            let mut consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();
            start(&mut consumer, config(vec![source("track_event", None)]));
            match round % 3 {
                // Its consumer goes without a word.
                0 => {}
                1 => {
                    consumer.disable_tracing(LIMIT).unwrap();
                }
                _ => {
                    // Several at a time, stopped one after the other.
                    let mut other = Consumer::connect(&service.consumers, LIMIT).unwrap();
                    start(&mut other, config(vec![source("track_event", None)]));
                    other.flush(LIMIT).unwrap();
                    drop(consumer);
                    check(&stop_trace(&mut other));
                }
            }
        }
        let growth = resident().saturating_sub(after_some);
        // The address sanitizer keeps what is freed, to notice if it is used.
        let keeps_all = std::env::var_os("ASAN_OPTIONS").is_some();
        assert!(
            keeps_all || growth < GROWTH,
            "{growth} bytes more than after a third"
        );
    });
}

/// A recording can be read on its own, in spite of losses.
fn check(trace: &[u8]) {
    let trace = numbered::read(trace);
    for (thread, events) in &trace.threads {
        assert!(events.next > 0, "thread {thread}: {events:?}");
    }
}

/// Ends the threads, also if the test fails.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
