//! Memory of a producer, a relay and a service, all in this process, which has no other test.

#[path = "../../client/tests/common/mod.rs"]
#[allow(unused)]
mod common;
mod world;

use world::throughput::{most_memory_kb, send};
use world::{TestRelay, World, machine};

#[test]
fn what_passes_a_relay_takes_no_more_memory_the_more_it_is() {
    let world = World::start();
    let relay = TestRelay::start(&world.remote, machine("guest"));
    relay.wait_connected();
    for way in [&world.remote, &relay.address] {
        send(way, &world.consumers, (2_000, 4096), None);
        let before = most_memory_kb();
        send(way, &world.consumers, (20_000, 4096), None);
        let grown = most_memory_kb() - before;
        // Of 100 MB.
        assert!(grown < 8 << 10, "{way}: {grown} kB");
    }
}
