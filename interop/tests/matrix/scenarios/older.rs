//! A service without newer methods.

use ferretto_interop::config::config;
use ferretto_interop::trace;
use ferretto_interop::{Cast, World};

use super::plain::EVENTS_A_ROUND;
use crate::PROGRAMS;

/// The methods that were added after the first version.
const MISSING: &[&str] = &[
    "Sync",
    "UpdateDataSource",
    "ActivateTriggers",
    "RegisterTraceWriter",
    "UnregisterTraceWriter",
    "QueryCapabilities",
    "QueryServiceState",
    "SaveTraceForBugreport",
    "CloneSession",
];

pub(crate) fn a_service_without_newer_methods_is_sufficient(cast: Cast) {
    let world = World::of_old_service(cast, PROGRAMS, MISSING);
    let mut producer = world.producer();
    let mut consumer = world.consumer();
    world.start_session(&mut consumer, &config(4096));
    producer.run("await-start 1");
    producer.run("slices 10");
    producer.run("packet 74000");
    // The trigger cannot arrive, and nothing depends on it.
    let _ = producer.try_run("trigger go");
    assert_eq!(consumer.run("flush"), "true");
    producer.run("numbers 0 10");
    let packets = trace::decode(&world.stop_and_read(&mut consumer));
    producer.run("await-stop 1");
    trace::assert_nothing_lost(&packets);
    let events = trace::track_events(&packets);
    assert_eq!(events.len(), 10 * EVENTS_A_ROUND + 1);
    assert_eq!(trace::texts(&packets).len(), 11);
}

pub(crate) fn unsupported_requests_are_rejected(cast: Cast) {
    let world = World::of_old_service(cast, PROGRAMS, MISSING);
    let mut producer = world.producer();
    let mut consumer = world.full_consumer();
    consumer.run(&format!("start {}", world.config_file(&config(4096))));
    producer.run("await-start 1");
    producer.run("numbers 0 10");
    let mut copy = world.full_consumer();
    let refused = copy
        .try_run("clone 1")
        .expect_err("cloning is not supported");
    assert!(refused.contains("support"), "{refused}");
    let packets = trace::decode(&world.stop_and_read(&mut consumer));
    trace::assert_nothing_lost(&packets);
    assert!(trace::numbers(&packets).into_iter().eq(0..10));
}
