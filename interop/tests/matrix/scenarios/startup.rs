//! Startup tracing.

use ferretto_interop::config::config;
use ferretto_interop::trace;
use ferretto_interop::{Cast, World};
use ferretto_interop_driver::PACKETS;
use ferretto_proto::TraceConfig;

use crate::PROGRAMS;

/// Returns a config without track events.
fn packets_only() -> TraceConfig {
    let mut config = config(4096);
    config
        .data_sources
        .retain(|source| source.config.name.as_deref() == Some(PACKETS.as_bytes()));
    config
}

pub(crate) fn events_before_the_session_are_recorded(cast: Cast) {
    record_early(World::new(cast, PROGRAMS), |_| {});
}

pub(crate) fn events_before_the_start_of_the_service_are_recorded(cast: Cast) {
    let world = World::without_service(cast, PROGRAMS);
    record_early(world, World::start_service);
}

fn record_early(mut world: World, before_the_session: impl FnOnce(&mut World)) {
    let config = packets_only();
    let mut program = world.startup_producer();
    let started = program.run(&format!("setup {}", world.config_file(&config)));
    assert_eq!(started, "1");
    program.run("numbers 0 100");
    before_the_session(&mut world);
    let mut consumer = world.consumer();
    world.start_session(&mut consumer, &config);
    program.run("await-adopted");
    program.run("numbers 100 100");
    program.run("commit");
    let packets = trace::decode(&world.stop_and_read(&mut consumer));
    trace::assert_nothing_lost(&packets);
    assert!(trace::numbers(&packets).into_iter().eq(0..200));
}
