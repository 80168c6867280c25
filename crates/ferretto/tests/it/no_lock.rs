//! Events take no lock: recording an event executes no instruction with a lock prefix, which taking
//! a lock requires.
//!
//! The thread is single-stepped while it records, and each instruction is examined. That also
//! detects other contention: shared reference counts and counters.

#[cfg(not(target_arch = "x86_64"))]
#[test]
fn events_take_no_lock() {
    println!("skipped: it reads the instructions of x86-64 only");
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    use ferretto::{CounterTrack, Flow, Track, counter, instant, register_data_source, slice};

    use crate::stepping::step_through;
    use ferretto_testing::sdk::events::Recorder;

    /// A name, and a function that records such an event.
    type Kind = (&'static str, fn(u64));

    static QUEUE: Track = Track::named("queue", 0);
    static HEAP: CounterTrack = CounterTrack::new("heap").incremental();

    fn instants(index: u64) {
        instant!("app", "instant");
        instant!("app", "arguments", index = index, name = "sixteen letters.", flow: Flow::process(index));
    }

    fn slices(index: u64) {
        let _slice = slice!("app", "slice", track: &QUEUE, index = index);
    }

    fn counters(index: u64) {
        counter!("app", "load", index);
        counter!("app", HEAP, index);
    }

    struct Source;

    impl ferretto::DataSource for Source {
        type Instance = ();
        type Thread = ();

        fn setup(&self, _: &ferretto::proto::DataSourceConfig) {}
    }

    // One test, since a process has one connection.
    #[test]
    fn events_take_no_lock() {
        ferretto_testing::own_process!();
        const ROUNDS: u64 = 2;
        let shared = Mutex::new(0);
        let locked = step_through(|| *shared.lock().unwrap() += 1);
        assert!(locked > 0, "a lock was not noticed");
        let count = AtomicU64::new(0);
        assert_eq!(step_through(|| count.store(1, Ordering::Relaxed)), 0);

        let idle = register_data_source("locks.idle", Source).unwrap();
        let kinds: [Kind; 3] = [
            ("instants", instants),
            ("slices", slices),
            ("counters", counters),
        ];
        let mut recorder = Recorder::new();
        let mut rounds = 0;
        let decoded = recorder.record(None, || {
            for (name, work) in kinds {
                // This completes the thread's one-time work.
                (0..2).for_each(work);
                rounds += 2;
                // Committing a full chunk takes a lock; the next round fits into the new chunk.
                let is_free = (2..2 + ROUNDS).any(|index| {
                    rounds += 1;
                    step_through(|| work(index)) == 0
                });
                assert!(is_free, "{name}: a lock, or memory that threads share");
            }
            assert_eq!(step_through(|| idle.trace(|_| unreachable!())), 0);
        });
        assert_eq!(decoded.events.len() as u64, 2 * rounds);

        // Without a recording, no lock at all is allowed.
        for (name, work) in kinds {
            work(0);
            assert_eq!(step_through(|| work(1)), 0, "{name}");
        }
    }
}
