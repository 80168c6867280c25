//! Test of more threads than the shared memory has pages.

use std::sync::Barrier;

use ferretto_client::Consumer;
use ferretto_testing::sdk::numbered::{self, amount};
use ferretto_testing::sdk::{LIMIT, Service, config, source, start, stop_trace};

const THREADS: u64 = 500;

// The shared memory has its default size, 256 KiB: 64 pages.
#[test]
fn five_hundred_threads_trace_into_the_default_memory() {
    ferretto_testing::own_process!();
    let service = Service::start();
    let options = ferretto::Options::new()
        .address(service.producers.clone())
        // The service may be slow. If writers kept their chunks, waiting would not free memory.
        .track_event_policy(ferretto::ExhaustedPolicy::StallThenDrop);
    options.wait(LIMIT).init().unwrap();
    let mut consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();
    let mut config = config(vec![source("track_event", None)]);
    config.buffers[0].size_kb = Some(64 * 1024);
    start(&mut consumer, config);

    let rounds = amount(3, 100);
    let all_wrote = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let all_wrote = &all_wrote;
            scope.spawn(move || {
                for round in 0..rounds {
                    // No thread commits: all keep their current chunks.
                    numbered::write(thread, round..round + 1);
                    all_wrote.wait();
                }
                assert!(ferretto::flush(LIMIT));
            });
        }
    });
    let trace = numbered::read(&stop_trace(&mut consumer)[..]);
    assert!(trace.problems.is_empty(), "{:?}", trace.problems);
    assert_eq!(trace.losses, 0);
    let whole = numbered::Thread {
        seen: rounds,
        next: rounds,
        ..Default::default()
    };
    assert_eq!(trace.threads.len(), THREADS as usize);
    assert!(trace.threads.values().all(|events| *events == whole));
}
