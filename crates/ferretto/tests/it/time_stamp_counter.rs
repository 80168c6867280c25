//! Test of the default clock of events, the processor's time stamp counter.

use std::time::Duration;

use ferretto::session::TrackEvents;
use ferretto::testing::{Capture, Node, Value};
use ferretto::track_event::EventClock;
use ferretto::{Backends, Options};
use ferretto_shm::Clock;

/// The largest allowed difference between the clocks, in nanoseconds. It is usually a thousand
/// times smaller, but the test must pass on any machine.
const NEAR: u64 = 1_000_000;

/// The time for which events are written: several times the calibration time of the counter.
const PERIOD: Duration = Duration::from_millis(60);

/// Writes instants with their index and the preceding time of the kernel's clock. Returns their
/// number.
fn write() -> u64 {
    let now = || Clock::Boottime.now();
    let end = now() + PERIOD.as_nanos() as u64;
    let mut count = 0;
    loop {
        let time = now();
        ferretto::instant!("counter", "full", number = count, time = time);
        ferretto::instant!("counter", "plain");
        count += 1;
        if end <= time {
            return count;
        }
        // A pause, so that the buffer holds all events.
        while now() < time + 50_000 {
            std::hint::spin_loop();
        }
    }
}

fn number(node: &Node, name: &str) -> u64 {
    match node.argument(name) {
        Some(Value::Uint(value)) => *value,
        Some(Value::Int(value)) => u64::try_from(*value).unwrap(),
        other => panic!("{other:?} {node:?}"),
    }
}

#[test]
fn timestamps_of_the_counter_match_the_kernels_clock() {
    ferretto_testing::own_process!();
    Options::new()
        .backends(Backends::IN_PROCESS)
        .init()
        .unwrap();
    let clock = EventClock::current();
    if clock != EventClock::Tsc {
        println!("skipped: this machine has no counter to rely on");
        assert_eq!(clock, EventClock::Boottime);
        return;
    }
    let capture = Capture::new()
        .all_threads()
        .track_events(TrackEvents::only(&["counter"]));
    let (written, trace) = capture.run(|| {
        std::thread::scope(|scope| {
            let threads = [(); 3].map(|()| scope.spawn(write));
            threads.map(|thread| thread.join().unwrap())
        })
    });
    let end = Clock::Boottime.now();
    assert!(!trace.has_losses);
    assert_eq!(trace.timelines.len(), written.len());
    let mut counts = Vec::new();
    for timeline in &trace.timelines {
        let nodes = &timeline.nodes;
        // Ordered by time, which is also the order in which they were written.
        let names = nodes.iter().map(|node| node.name.as_str());
        assert!(names.eq(["full", "plain"].into_iter().cycle().take(nodes.len())));
        let full = nodes.iter().step_by(2);
        let numbers = full.clone().map(|node| number(node, "number"));
        assert!(numbers.eq(0..nodes.len() as u64 / 2));
        // Each timestamp is between the times read before it and before the next one.
        let times: Vec<_> = full.map(|node| number(node, "time")).collect();
        for (index, pair) in nodes.chunks(2).enumerate() {
            let next = times.get(index + 1).copied().unwrap_or(end);
            assert!(times[index] <= pair[0].begin + NEAR, "{pair:?}");
            assert!(pair[1].begin <= next + NEAR, "{pair:?} {next}");
        }
        counts.push(times.len() as u64);
    }
    counts.sort_unstable();
    let mut written = written;
    written.sort_unstable();
    assert_eq!(counts, written);
}
