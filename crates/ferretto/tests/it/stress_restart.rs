//! Test of a service that restarts repeatedly while a program traces.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ferretto_client::Consumer;
use ferretto_testing::sdk::numbered;
use ferretto_testing::sdk::{LIMIT, Service, Sockets, config, source, start, stop_trace};

const THREADS: u64 = 4;

#[test]
fn sdk_005_and_006_a_program_is_recorded_by_each_service_that_comes() {
    ferretto_testing::own_process!();
    let sockets = Sockets::new();
    let done = AtomicBool::new(false);
    let written: Vec<_> = (0..THREADS).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for (thread, written) in written.iter().enumerate() {
            let done = &done;
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let number = written.load(Ordering::Relaxed);
                    numbered::write(thread as u64, number..number + 1);
                    written.store(number + 1, Ordering::Relaxed);
                    std::thread::yield_now();
                }
            });
        }
        let _stops = Stops(&done);
        let mut next = [0; THREADS as usize];
        for life in 0..4 {
            let service = Service::start_at(&sockets);
            if life == 0 {
                let options = ferretto::Options::new().address(service.producers.clone());
                options.wait(LIMIT).init().unwrap();
            }
            let mut consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();
            await_source(&mut consumer);
            start(&mut consumer, config(vec![source("track_event", None)]));
            write_more(&written);
            consumer.flush(LIMIT).unwrap();
            let trace = numbered::read(&stop_trace(&mut consumer)[..]);
            assert_eq!(trace.threads.len(), THREADS as usize, "life {life}");
            for (thread, events) in &trace.threads {
                let next = &mut next[*thread as usize];
                assert!(
                    events.first >= *next,
                    "life {life}: {events:?} after {next}"
                );
                *next = events.next;
            }
            // Another recording is active when the service ends.
            consumer.free_buffers(LIMIT).unwrap();
            start(&mut consumer, config(vec![source("track_event", None)]));
            write_more(&written);
            drop(service);
            write_more(&written);
        }
    });
}

/// Waits until every thread has written more events; threads go on without a service.
fn write_more(written: &[AtomicU64]) {
    let read = || {
        written
            .iter()
            .map(|written| written.load(Ordering::Relaxed))
    };
    let before: Vec<_> = read().collect();
    while read().zip(&before).any(|(now, before)| now < before + 100) {
        std::thread::yield_now();
    }
}

/// Waits until the program has connected.
fn await_source(consumer: &mut Consumer) {
    let is_there = |consumer: &mut Consumer| {
        let state = consumer.query_service_state(LIMIT).unwrap();
        !state.data_sources.is_empty()
    };
    while !is_there(consumer) {
        std::thread::yield_now();
    }
}

/// Stops the threads, also if the test fails.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
