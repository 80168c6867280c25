//! What is left when a data source has ended: nothing. Alone in its process, as it looks at all of its descriptors.

#[path = "daemon/world.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod world;

use ferretto_proto::PerfEventConfig;
use ferretto_proto::perf_event_config::{CallstackSampling, Scope};

use crate::world::{World, config, permitted, source, wait_until};

/// Descriptors and mappings of events that this process has.
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

/// Descriptors of this process, of whatever kind.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

#[test]
fn perf_053_nothing_is_left_of_a_data_source_that_has_ended() {
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
    // The first brings threads that stay.
    world.record(config(vec![source(&sampled)]), |_| {});
    let before = descriptors();
    for perf in [sampled, PerfEventConfig::default()] {
        world.record(config(vec![source(&perf)]), |_| assert!(events() > 0));
        assert_eq!(events(), 0);
    }
    // Those of processes go with the unwinders' memory of them, a moment later.
    wait_until("descriptors are closed", || descriptors() <= before);
}
