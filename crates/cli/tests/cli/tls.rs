//! Encrypted connections between machines, in builds with and without the feature.

use crate::world::World;

#[cfg(not(feature = "tls"))]
#[test]
fn without_the_feature_connections_with_certificates_fail() {
    let mut world = World::new();
    let named = "--features tls";
    let made = world.run("ferretto", &["relay-cert", "machine"]);
    made.returned(1).complained(named);
    world.set("FERRETTO_TLS", "certificates/machine");
    world.set("PERFETTO_PRODUCER_SOCK_NAME", "127.0.0.1:0");
    let no_args: [&str; 0] = [];
    world.run("traced", &no_args).returned(1).complained(named);
    assert_eq!(world.names(), [] as [&str; 0]);
}

#[cfg(feature = "tls")]
mod with {
    use rustix::process::Signal;

    use super::World;
    use crate::daemons::traced_probes;
    use crate::relay::free_port;
    use crate::world::until;

    #[test]
    fn relays_and_programs_without_one_reach_a_host_with_certificates_alone() {
        let (mut host, mut guest, mut direct) = (World::new(), World::new(), World::new());
        let folder = host.path("certificates");
        let folder = folder.to_str().unwrap();
        let args = ["relay-cert", "-o", folder, "127.0.0.1", "guest1", "guest2"];
        let made = host.run("ferretto", &args).returned(0);
        assert_eq!(made.text().lines().count(), 3, "{}", made.text());
        let remote = format!("127.0.0.1:{}", free_port());
        let producers = format!("{},{remote}", host.path("producer.sock").display());
        host.set("PERFETTO_PRODUCER_SOCK_NAME", &producers);
        host.set("FERRETTO_TLS", &format!("{folder}/127.0.0.1"));
        let relays = ["--enable-relay-endpoint-on", &remote];
        let service = host.start_daemon("traced", &relays, "TRACED_NOTIFY_FD");
        guest.set("PERFETTO_RELAY_SOCK_NAME", &remote);
        guest.set("PERFETTO_MACHINE_NAME", "guest1");
        guest.set("FERRETTO_MACHINE_ID", "one");
        let relay = guest.start_daemon("traced_relay", &[], "TRACED_RELAY_NOTIFY_FD");
        // Connections without encryption are refused.
        let shown = host.run("ferretto", &["status"]).returned(0);
        assert!(!shown.text().contains("guest1"), "{}", shown.text());
        relay.signal(Signal::TERM);
        let output = relay.finish().returned(0);
        output.complained("it speaks TLS");
        guest.set("FERRETTO_TLS", &format!("{folder}/guest1"));
        let relay = guest.start_daemon("traced_relay", &[], "TRACED_RELAY_NOTIFY_FD");
        let probes = traced_probes(&guest);
        direct.set("PERFETTO_PRODUCER_SOCK_NAME", &remote);
        direct.set("PERFETTO_MACHINE_NAME", "guest2");
        direct.set("FERRETTO_MACHINE_ID", "two");
        direct.set("FERRETTO_TLS", &format!("{folder}/guest2"));
        let more_probes = traced_probes(&direct);
        until("both machines and their clocks are listed", || {
            let output = host.run("ferretto", &["status"]).returned(0);
            let is_known = |name| {
                output
                    .text()
                    .contains(&format!("machine {name}, by network, clock "))
            };
            (is_known("guest1") && is_known("guest2")).then_some(())
        });
        for running in [probes, more_probes, relay, service] {
            running.signal(Signal::TERM);
            running.finish().returned(0);
        }
    }
}
