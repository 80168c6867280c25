//! Throughput of a service over TCP: directly, through our relay, and through upstream's if
//! `FERRETTO_UPSTREAM` names the folder of its programs.

use ferretto_testing::relay::{TestRelay, World, machine, throughput};

fn main() {
    let world = World::start();
    let relay = TestRelay::start(&world.remote, machine("guest"));
    throughput::measure("direct", &world.remote, &world.consumers, None);
    throughput::measure("relay", &relay.address, &world.consumers, None);
    throughput::measure_upstream(&world);
}
