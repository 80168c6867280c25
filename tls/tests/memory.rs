//! Memory use of a producer, a relay and a service with TLS in this process. The process runs no
//! other test.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ferretto_ipc::socket::Security;
use ferretto_relay::RelayOptions;
use ferretto_tls::{Authority, Tls};

use ferretto_testing::client::unique_address;
use ferretto_testing::relay::throughput::{peak_memory_kb, send};
use ferretto_testing::relay::{TestRelay, World, any_port, machine};

#[test]
fn memory_does_not_grow_with_the_encrypted_data() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::open(folder.path()).unwrap();
    let issue = |name: &str| -> Option<Arc<dyn Security>> {
        let until = SystemTime::now() + Duration::from_secs(3600);
        let issued = authority.issue(&[name.to_owned()], until).unwrap();
        Some(Arc::new(Tls::from_folder(&issued).unwrap()))
    };
    let world = World::start_with(&any_port(), |options| options.security = issue("127.0.0.1"));
    let relay = TestRelay::start_with(RelayOptions {
        machine: machine("guest"),
        security: issue("guest"),
        ..RelayOptions::new(unique_address("relay"), world.remote.clone())
    });
    relay.wait_connected();
    send(&relay.address, &world.consumers, (2_000, 4096), None);
    let before = peak_memory_kb();
    send(&relay.address, &world.consumers, (20_000, 4096), None);
    let grown = peak_memory_kb() - before;
    // Of 100 MB forwarded.
    assert!(grown < 8 << 10, "{grown} kB");
}
