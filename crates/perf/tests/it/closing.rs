//! Test that an ended data source leaves nothing behind. Alone in its process, since it checks all
//! descriptors.

use std::time::Duration;

use ferretto_proto::PerfEventConfig;
use ferretto_proto::perf_event_config::{CallstackSampling, Scope};
use ferretto_proto::perf_events::Timebase;
use ferretto_proto::perf_events::timebase::Interval;

use crate::daemon::world::{World, config, permitted, source, wait_until};

/// Returns the numbers of event descriptors and mappings of this process.
fn events() -> usize {
    let fds = std::fs::read_dir("/proc/self/fd").expect("descriptors");
    let links = fds
        .flatten()
        .filter_map(|fd| std::fs::read_link(fd.path()).ok());
    let is_event = |text: &str| text.contains("[perf_event]");
    let fds = links
        .filter(|link| link.to_str().is_some_and(is_event))
        .count();
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    fds + maps.lines().filter(|line| is_event(line)).count()
}

/// Returns the number of descriptors of this process.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

#[test]
fn perf_053_nothing_is_left_of_a_data_source_that_has_ended() {
    ferretto_testing::own_process!();
    if permitted(|| Some(())).is_none() {
        return;
    }
    let world = World::new();
    let me = std::process::id() as i32;
    let callstacks = CallstackSampling {
        scope: Scope {
            target_pid: vec![me],
            ..Default::default()
        }
        .into(),
        ..Default::default()
    };
    let sampled = PerfEventConfig {
        callstack_sampling: callstacks.into(),
        ..Default::default()
    };
    // The first recording starts threads that stay.
    world.record(config(vec![source(&sampled)]), |_| {});
    let before = descriptors();
    let polled = PerfEventConfig {
        timebase: Timebase {
            interval: Some(Interval::PollPeriodMs(1)),
            ..Default::default()
        }
        .into(),
        ..Default::default()
    };
    for perf in [&sampled, &PerfEventConfig::default(), &polled] {
        world.record(config(vec![source(perf)]), |_| assert!(events() > 0));
        assert_eq!(events(), 0);
    }
    // The descriptors of processes are closed with the unwinders' state, a moment later.
    wait_until("descriptors are closed", || descriptors() <= before);
    // Nor does its timer stay: a polling profiler would wake up every millisecond.
    let rested = wakeups();
    let begin = cpu_time();
    while cpu_time() < begin + Duration::from_millis(100) {}
    assert!(wakeups() < rested + 50, "{} wake-ups", wakeups() - rested);
    the_service_vanishes(world, &sampled, before);
}

/// perf_020: without the service all instances end, and none is left at the next service.
fn the_service_vanishes(mut world: World, sampled: &PerfEventConfig, before: usize) {
    let mut consumer = world.consumer();
    let wanted = config(vec![source(sampled)]);
    consumer.enable_tracing(wanted, None).expect("enabled");
    wait_until("it samples", || events() > 0);
    world.stop_host();
    drop(consumer);
    world.start_host();
    world.wait_ready();
    wait_until("events are closed", || events() == 0);
    wait_until("descriptors are closed", || descriptors() <= before);
}

/// Returns the CPU time of this thread, which passes no faster than time.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns the number of voluntary context switches of all threads of this process.
fn wakeups() -> u64 {
    let threads = std::fs::read_dir("/proc/self/task").expect("threads");
    let statuses = threads
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("status")).ok());
    let count = |status: String| {
        let line = status.lines().find_map(|line| {
            let rest = line.strip_prefix("voluntary_ctxt_switches:")?;
            rest.trim().parse::<u64>().ok()
        });
        line.unwrap_or(0)
    };
    statuses.map(count).sum()
}
