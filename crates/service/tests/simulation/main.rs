//! Simulated lives of services with random clients: honest and hostile producers, and consumers
//! that come and go, lose messages, answer late or never, call out of order and send invalid
//! messages. Disks fail, are full or slow, services are killed in the middle of a write and started
//! again, and time jumps. These invariants must hold in all lives:
//!
//! * each packet of an honest writer is read once, complete, in order, and only by its session; or
//!   it is missing, and the next packet reports a loss or the session's statistics name a cause;
//! * every request is answered exactly once;
//! * producers get their commands in a valid order;
//! * all state is bounded, and none is left once all clients have disconnected.
//!
//! The seed determines a life. `SERVICE_LIVES=n` runs n of them, from seed `SERVICE_FIRST` on;
//! `SERVICE_SEED=s` prints one, and `SERVICE_STEPS=n` only its first n steps.
#![allow(unreachable_pub, missing_debug_implementations)]

mod account;
mod config;
mod consumers;
mod hostile;
mod ledger;
mod life;
mod producers;
mod random;
mod requests;
mod runner;
mod stamp;
mod tally;
#[path = "../service/world/mod.rs"]
mod world;

use std::time::Duration;

use crate::life::{Life, length};
use crate::world::Log;

/// The number of lives in an ordinary test run, which takes some seconds without optimisation.
const LIVES: u64 = 400;

/// Returns the time for which this process has run.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn random_lives_keep_the_invariants() {
    if let Some(seed) = number("SERVICE_SEED") {
        return runner::replay(seed, number("SERVICE_STEPS"));
    }
    let lives = number("SERVICE_LIVES").unwrap_or(LIVES);
    let first = number("SERVICE_FIRST").unwrap_or(0);
    let before = cpu_time();
    let tally = runner::live_many(first, lives, number("SERVICE_THREADS").unwrap_or(2));
    let rate = lives as f64 / (cpu_time() - before).as_secs_f64();
    println!("{tally:?}");
    println!(
        "{rate:.0} lives in a second of a core, {:.1} million a day",
        rate * 86_400.0 / 1e6
    );
    // The lives contain enough events.
    assert!(
        tally.crashes > lives / 40 && tally.crashed_files > lives / 400,
        "{tally:?}"
    );
    assert_eq!(tally.lives, lives);
    assert!(
        tally.sessions > lives && tally.packets > 10 * lives,
        "{tally:?}"
    );
    assert!(
        tally.files > lives / 4 && tally.clones > lives / 16,
        "{tally:?}"
    );
    assert!(
        tally.checked > lives / 4 && tally.gaps > lives / 16,
        "{tally:?}"
    );
}

/// The log contains every event and command, with all bytes.
#[test]
fn a_seed_repeats_its_life() {
    let log_of = |seed| {
        let mut life = Life::new(seed);
        life.world.log = Some(Log::new(false));
        life.live(length(seed)).1.expect("a log")
    };
    for seed in 0..20 {
        let first = log_of(seed);
        assert!(first.lines() > 50, "{first:?}");
        assert_eq!(first, log_of(seed), "seed {seed}");
        assert_ne!(first, log_of(seed + 1000));
    }
}
