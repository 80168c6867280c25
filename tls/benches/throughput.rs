//! Throughput of a service over TCP: through a relay, encrypted and not.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ferretto_ipc::socket::Security;
use ferretto_relay::RelayOptions;
use ferretto_testing::client::unique_address;
use ferretto_testing::relay::{TestRelay, World, any_port, machine, throughput};
use ferretto_tls::{Authority, Tls};
use tempfile::TempDir;

const DAY: Duration = Duration::from_secs(24 * 3600);

fn main() {
    let folder = TempDir::new().expect("a temporary folder");
    let authority = Authority::open(folder.path()).expect("an authority");
    let issue = |name: &str| -> Arc<dyn Security> {
        let until = SystemTime::now() + DAY;
        let folder = authority.issue(&[name.to_owned()], until);
        Arc::new(Tls::from_folder(&folder.expect("a certificate")).expect("a configuration"))
    };
    let encrypted = (Some(issue("127.0.0.1")), Some(issue("guest")));
    for (name, (of_host, of_relay)) in [("relay", (None, None)), ("relay, encrypted", encrypted)] {
        let world = World::start_with(&any_port(), |options| options.security = of_host);
        let relay = TestRelay::start_with(RelayOptions {
            machine: machine("guest"),
            security: of_relay,
            ..RelayOptions::new(unique_address("relay"), world.remote.clone())
        });
        relay.wait_connected();
        throughput::measure(name, &relay.address, &world.consumers, None);
    }
}
