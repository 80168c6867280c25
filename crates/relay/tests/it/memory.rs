//! Memory use of a producer, a relay and a service in this process. The process runs no other test.

use ferretto_testing::relay::throughput::{peak_memory_kb, send};
use ferretto_testing::relay::{TestRelay, World, machine};

#[test]
fn memory_does_not_grow_with_the_forwarded_data() {
    ferretto_testing::own_process!();
    let world = World::start();
    let relay = TestRelay::start(&world.remote, machine("guest"));
    relay.wait_connected();
    for way in [&world.remote, &relay.address] {
        send(way, &world.consumers, (2_000, 4096), None);
        let before = peak_memory_kb();
        send(way, &world.consumers, (20_000, 4096), None);
        let grown = peak_memory_kb() - before;
        // Of 100 MB forwarded.
        assert!(grown < 8 << 10, "{way}: {grown} kB");
    }
}
