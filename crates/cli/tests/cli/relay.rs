//! Two machines: a service, and a relay with data sources behind it.

use rustix::process::Signal;

use crate::daemons::traced_probes;
use crate::world::{World, until};

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[test]
fn what_another_machine_records_comes_with_its_clock_and_its_producers_are_shown() {
    let (mut host, mut guest) = (World::new(), World::new());
    let remote = format!("127.0.0.1:{}", free_port());
    let producers = format!("{},{remote}", host.path("producer.sock").display());
    host.set("PERFETTO_PRODUCER_SOCK_NAME", &producers);
    let relays = [
        "--enable-relay-endpoint-on",
        &remote,
        "--allow-host",
        "127.0.0.0/8",
    ];
    let service = host.start_daemon("traced", &relays, "TRACED_NOTIFY_FD");
    guest.set("PERFETTO_RELAY_SOCK_NAME", &remote);
    guest.set("PERFETTO_MACHINE_NAME", "guest-of-test");
    let relay = guest.start_daemon("traced_relay", &[], "TRACED_RELAY_NOTIFY_FD");
    let probes = traced_probes(&guest);
    let shown = until("the machine is known with its clock", || {
        let said = host.run("ferretto", &["status"]).returned(0);
        let text = said.text().to_owned();
        let is_known = text.contains("machine guest-of-test, by network, clock ");
        (is_known && text.contains("traced_probes (process ")).then_some(text)
    });
    assert!(shown.contains("machine host, by socket"), "{shown}");
    assert!(shown.contains("linux.process_stats"), "{shown}");
    assert!(shown.contains("no recordings"), "{shown}");
    let json = host.run("ferretto", &["status", "--json"]).returned(0);
    for part in [
        "\"name\":\"guest-of-test\"",
        "\"clock_error_ns\":",
        "\"recordings\":[]",
    ] {
        assert!(json.text().contains(part), "{part}: {}", json.text());
    }
    let config = "buffers { size_kb: 4096 } duration_ms: 300\n\
        data_sources { machine_name_filter: \"guest-of-test\"\n\
        config { name: \"linux.process_stats\" process_stats_config { scan_all_processes_on_start: true } } }";
    host.write("config.txt", config);
    let args = ["--txt", "-c", "config.txt", "-o", "trace.pftrace"];
    host.run("perfetto", &args).returned(0);
    let summary = host.summary("trace.pftrace");
    let [machine] = &summary.machines[..] else {
        panic!("{:?}", summary.machines)
    };
    assert_eq!(machine.name, "guest-of-test");
    assert!(machine.packets > 0);
    // It is this machine, so the clocks are the same.
    let clock = machine.clock.unwrap();
    assert!(
        clock.offset_ns.unsigned_abs() <= clock.error_ns,
        "{clock:?}"
    );
    let said = host
        .run("ferretto", &["summary", "trace.pftrace"])
        .returned(0);
    assert!(said.text().contains("guest-of-test  "), "{}", said.text());
    for running in [probes, relay, service] {
        running.signal(Signal::TERM);
        running.finish().returned(0);
    }
    assert_eq!(guest.names(), [] as [&str; 0]);
}
