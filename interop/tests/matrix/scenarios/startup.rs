//! Startup tracing of the official C++ SDK, which brings its own memory. Such a
//! program crashes when a service refuses that.

use ferretto_interop::config::config;
use ferretto_interop::trace;
use ferretto_interop::{Cast, World};
use ferretto_interop_driver::PACKETS;

use crate::PROGRAMS;

pub(crate) fn what_was_recorded_before_the_session_is_in_it(cast: Cast) {
    let world = World::new(cast, PROGRAMS);
    let mut config = config(4096);
    config
        .data_sources
        .retain(|source| source.config.name.as_deref() == Some(PACKETS.as_bytes()));
    let mut program = world.official_startup();
    let started = program.run(&format!("setup {}", world.config_file(&config)));
    assert_eq!(started, "1");
    program.run("numbers 0 100");
    let mut consumer = world.consumer();
    world.start_session(&mut consumer, &config);
    program.run("await-adopted");
    program.run("numbers 100 100");
    program.run("commit");
    let packets = trace::decode(&world.stop_and_read(&mut consumer));
    trace::assert_nothing_lost(&packets);
    assert!(trace::numbers(&packets).into_iter().eq(0..200));
}
