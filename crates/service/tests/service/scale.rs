//! Many producers, data sources and sessions at once.

use crate::world::{ConfigBuilder, World};

#[test]
fn costs_grow_only_with_the_number_of_instances() {
    const SESSIONS: u32 = 5;
    const SOURCES: usize = 20;
    let mut world = World::new();
    let consumers: Vec<_> = (0..SESSIONS).map(|uid| world.consumer_of(uid)).collect();
    let config = (0..SOURCES).fold(ConfigBuilder::new(), |config, index| {
        config.source(&format!("s{index}"))
    });
    // Half of the sessions start before the producers connect, half afterwards.
    let (before, after) = consumers.split_at(2);
    for consumer in before {
        world.enable(*consumer, config.clone());
    }
    let mut producers = Vec::new();
    for index in 0..100 {
        let producer = world.producer(&format!("p{index}"));
        for source in 0..SOURCES {
            world.register(producer, &format!("s{source}"));
        }
        producers.push(producer);
    }
    for consumer in after {
        world.enable(*consumer, config.clone());
    }
    for producer in &producers {
        assert_eq!(world.setups(*producer).len(), SOURCES * SESSIONS as usize);
    }
    for producer in producers {
        world.disconnect(producer);
    }
    assert!(world.state(consumers[0]).data_sources.is_empty());
}
