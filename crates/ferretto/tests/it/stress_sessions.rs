//! Recordings start and stop while eight threads trace.

use std::sync::atomic::{AtomicBool, Ordering};

use ferretto_client::Consumer;
use ferretto_testing::sdk::numbered::{self, amount};
use ferretto_testing::sdk::{LIMIT, Service, config, source, start, stop_trace};

const THREADS: u64 = 8;

/// The largest allowed growth of the process, in bytes: the allocator does not return all memory.
const GROWTH: u64 = 16 << 20;

/// Returns the resident memory of this process, in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}

#[test]
fn repeated_recordings_do_not_leak() {
    ferretto_testing::own_process!();
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
                // The consumer disconnects without stopping the recording.
                0 => {}
                1 => {
                    consumer.disable_tracing(LIMIT).unwrap();
                }
                _ => {
                    // Several recordings at a time, stopped one after the other.
                    let mut other = Consumer::connect(&service.consumers, LIMIT).unwrap();
                    start(&mut other, config(vec![source("track_event", None)]));
                    other.flush(LIMIT).unwrap();
                    drop(consumer);
                    check(&stop_trace(&mut other));
                }
            }
        }
        let growth = resident().saturating_sub(after_some);
        // The address sanitizer keeps freed memory to detect its use.
        let keeps_all = std::env::var_os("ASAN_OPTIONS").is_some();
        assert!(
            keeps_all || growth < GROWTH,
            "{growth} bytes more than after a third"
        );
    });
}

/// Checks that a recording is readable on its own, in spite of losses.
fn check(trace: &[u8]) {
    let trace = numbered::read(trace);
    for (thread, events) in &trace.threads {
        assert!(events.next > 0, "thread {thread}: {events:?}");
    }
}

/// Stops the threads, also if the test fails.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
