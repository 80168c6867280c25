//! Custom data sources.

use ferretto_interop::config::config;
use ferretto_interop::trace;
use ferretto_interop::{Cast, World};
use ferretto_interop_driver::PACKETS;
use ferretto_proto::TraceConfig;

use crate::PROGRAMS;

/// Returns a config with a text for the data source.
fn tagged(tag: &str) -> TraceConfig {
    let mut config = config(4096);
    let sources = config.data_sources.iter_mut();
    let mut sources = sources.map(|source| source.config.get_or_insert_default());
    let packets = sources.find(|source| source.name.as_deref() == Some(PACKETS.as_bytes()));
    packets
        .expect("the data source is in the config")
        .legacy_config = Some(tag.into());
    config
}

pub(crate) fn a_data_source_receives_its_config_and_callbacks(cast: Cast) {
    let world = World::new(cast, PROGRAMS);
    let mut producer = world.producer();
    assert!(producer.try_run("tag").is_err(), "no session is running");
    let mut consumer = world.consumer();
    world.start_session(&mut consumer, &tagged("first"));
    producer.run("await-start 1");
    assert_eq!(producer.run("tags"), "first");
    producer.run("tag");
    assert_eq!(consumer.run("flush"), "true");
    producer.run("await-flush 1");
    let packets = trace::decode(&world.stop_and_read(&mut consumer));
    producer.run("await-stop 1");
    assert!(producer.try_run("tag").is_err(), "the session has ended");
    trace::assert_nothing_lost(&packets);
    assert_eq!(trace::texts(&packets), ["first"]);
}

pub(crate) fn every_session_has_its_own_config_of_a_data_source(cast: Cast) {
    let world = World::new(cast, PROGRAMS);
    let mut producer = world.producer();
    let tags = ["first", "second", "third"];
    let mut consumers = tags.map(|_| world.consumer());
    for (number, (consumer, tag)) in (1..).zip(consumers.iter_mut().zip(tags)) {
        world.start_session(consumer, &tagged(tag));
        producer.run(&format!("await-start {number}"));
    }
    producer.run("tag");
    for (consumer, tag) in consumers.iter_mut().zip(tags) {
        let packets = trace::decode(&world.stop_and_read(consumer));
        trace::assert_nothing_lost(&packets);
        assert_eq!(trace::texts(&packets), [tag]);
    }
}
