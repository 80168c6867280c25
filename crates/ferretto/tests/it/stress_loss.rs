//! Eight threads trace at full speed into a recording that writes a file.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::sync::Barrier;

use ferretto::proto::TraceConfig;
use ferretto::proto::data_source_config::BufferExhaustedPolicy;
use ferretto_client::Consumer;
use ferretto_testing::sdk::numbered::{self, Numbered, amount};
use ferretto_testing::sdk::{LIMIT, Service, config, source};
use ferretto_trace::events::Problem;

const THREADS: u64 = 8;

/// A file that is deleted on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("ferretto-stress-{}-{name}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn into_a_file(policy: BufferExhaustedPolicy) -> TraceConfig {
    let mut events = source("track_event", None);
    events
        .config
        .get_or_insert_default()
        .buffer_exhausted_policy = Some(policy);
    let mut config = config(vec![events]);
    // Space for all data between two writes to the file.
    config.buffers[0].size_kb = Some(amount(64, 768) as u32 * 1024);
    config.write_into_file = Some(true);
    config.file_write_period_ms = Some(100);
    config
}

/// Records `count` events of each thread, and one more after the shared memory has been drained.
fn record(service: &Service, policy: BufferExhaustedPolicy, count: u64) -> Numbered {
    let scratch = Scratch::new("loss");
    let file = File::create(&scratch.0).unwrap();
    let mut consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();
    ferretto_testing::sdk::start_into(&mut consumer, into_a_file(policy), Some(file.into()));
    let written = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let written = &written;
            scope.spawn(move || {
                numbered::write(thread, 0..count);
                written.wait();
                assert!(ferretto::flush(LIMIT));
                numbered::write(thread, count..count + 1);
            });
        }
    });
    consumer.flush(LIMIT).unwrap();
    consumer.disable_tracing(LIMIT).unwrap();
    consumer.wait_for_end(LIMIT).unwrap().expect("it ends");
    numbered::read(BufReader::new(File::open(&scratch.0).unwrap()))
}

// One test, since a process has one connection.
#[test]
fn stalling_writers_lose_nothing_and_other_losses_are_reported() {
    ferretto_testing::own_process!();
    let service = Service::start();
    let options = ferretto::Options::new().address(service.producers.clone());
    let options = options.memory_kb(amount(256, 8192) as u32);
    let options = options.track_event_policy_by_config();
    options.wait(LIMIT).init().unwrap();
    let count = amount(5_000, 10_000_000);

    let all = record(
        &service,
        BufferExhaustedPolicy::BUFFER_EXHAUSTED_STALL_THEN_DROP,
        count,
    );
    assert!(all.problems.is_empty(), "{:?}", all.problems);
    assert_eq!(all.losses, 0);
    let whole = numbered::Thread {
        seen: count + 1,
        next: count + 1,
        ..Default::default()
    };
    assert_eq!(all.threads.len(), THREADS as usize);
    for (thread, events) in &all.threads {
        assert_eq!(events, &whole, "thread {thread}");
    }

    let some = record(
        &service,
        BufferExhaustedPolicy::BUFFER_EXHAUSTED_DROP,
        count,
    );
    assert_eq!(some.threads.len(), THREADS as usize);
    for (thread, events) in &some.threads {
        assert_eq!(events.next, count + 1, "the last event of thread {thread}");
        assert_eq!(events.seen + events.missing, count + 1, "thread {thread}");
        assert_eq!(events.unexplained, 0, "thread {thread}: {events:?}");
    }
    // Remaining packets are readable in spite of dropped ones.
    let unreadable: Vec<_> = some
        .problems
        .iter()
        .filter(|(problem, _)| *problem != Problem::EndWithoutBegin)
        .collect();
    assert_eq!(unreadable, []);
}
