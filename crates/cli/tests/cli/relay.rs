//! Two machines: one with a service, and one with a relay and data sources.

use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::daemons::traced_probes;
use crate::world::{FERRETTO, Running, World, until};

/// Returns a port that is currently free.
pub(crate) fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[test]
fn data_of_another_machine_has_its_clock_and_its_producers_are_shown() {
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
    let shown = until("the machine and its clock are listed", || {
        let output = host.run("ferretto", &["status"]).returned(0);
        let text = output.text().to_owned();
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
    // Both are this machine, so the clocks are the same.
    let clock = machine.clock.unwrap();
    assert!(
        clock.offset_ns.unsigned_abs() <= clock.error_ns,
        "{clock:?}"
    );
    let output = host
        .run("ferretto", &["summary", "trace.pftrace"])
        .returned(0);
    assert!(
        output.text().contains("guest-of-test  "),
        "{}",
        output.text()
    );
    for running in [probes, relay, service] {
        running.signal(Signal::TERM);
        running.finish().returned(0);
    }
    assert_eq!(guest.names(), [] as [&str; 0]);
}

#[test]
fn a_relay_serves_a_socket_of_systemd_notifies_systemd_and_keeps_the_socket() {
    let (mut host, mut guest) = (World::new(), World::new());
    let remote = format!("127.0.0.1:{}", free_port());
    host.set("PERFETTO_PRODUCER_SOCK_NAME", &remote);
    let service = host.start_daemon("traced", &["--enable-relay-endpoint"], "TRACED_NOTIFY_FD");
    let listener = UnixListener::bind(guest.path("activated.sock")).unwrap();
    let notifications = UnixDatagram::bind(guest.path("notify")).unwrap();
    guest.set("PERFETTO_RELAY_SOCK_NAME", &remote);
    guest.set("PERFETTO_MACHINE_NAME", "activated");
    // A program that connects before the relay is started waits for it.
    guest.set(
        "PERFETTO_PRODUCER_SOCK_NAME",
        guest.path("activated.sock").to_str().unwrap(),
    );
    let probes = guest.start("traced_probes", &[] as &[&str]);
    // Descriptor 3, with the name in the packaged socket unit.
    let script = "exec 3<&0 </dev/null; export LISTEN_PID=$$; exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", FERRETTO, "traced_relay"]);
    let mut command = guest.at_home(command);
    command
        .env("LISTEN_FDS", "1")
        .env("LISTEN_FDNAMES", "producer")
        .env("NOTIFY_SOCKET", guest.path("notify"))
        .stdin(Stdio::from(OwnedFd::from(listener)));
    let relay = Running::new(command.spawn().unwrap());
    let mut output = [0; 64];
    let len = notifications.recv(&mut output).unwrap();
    assert_eq!(&output[..len], b"READY=1\n");
    until("the program is listed", || {
        let output = host.run("ferretto", &["status"]).returned(0);
        let text = output.text();
        (text.contains("machine activated") && text.contains("traced_probes (")).then_some(())
    });
    relay.signal(Signal::TERM);
    relay.finish().returned(0);
    let len = notifications.recv(&mut output).unwrap();
    assert_eq!(&output[..len], b"STOPPING=1\n");
    // The process that bound the socket keeps it.
    assert!(guest.path("activated.sock").exists());
    for running in [probes, service] {
        running.signal(Signal::TERM);
        running.finish().returned(0);
    }
}

#[test]
fn a_second_relay_does_not_take_the_socket_of_the_first() {
    let mut guest = World::new();
    guest.set(
        "PERFETTO_RELAY_SOCK_NAME",
        &format!("127.0.0.1:{}", free_port()),
    );
    let relay = guest.start_daemon("traced_relay", &[], "TRACED_RELAY_NOTIFY_FD");
    let second = guest.run("traced_relay", &[] as &[&str]).returned(1);
    assert!(second.stderr.contains("producer.sock"), "{second:?}");
    assert_eq!(guest.names(), ["producer.sock"]);
    relay.signal(Signal::KILL);
    relay.finish().returned(128 + 9);
    // The socket of a killed relay does not block the next one.
    let next = guest.start_daemon("traced_relay", &[], "TRACED_RELAY_NOTIFY_FD");
    next.signal(Signal::TERM);
    next.finish().returned(0);
    assert_eq!(guest.names(), [] as [&str; 0]);
}

#[test]
fn a_watched_status_ends_with_the_service_or_on_interrupt() {
    let host = World::new();
    let none = host.run("ferretto", &["status", "--watch"]).returned(1);
    none.complained("there is no tracing service at");
    let service = host.start_daemon("traced", &[], "TRACED_NOTIFY_FD");
    let mut interrupted = host.start("ferretto", &["status", "--watch", "--json"]);
    for _ in 0..2 {
        interrupted.wait_for("\"recordings\":[]}\n");
    }
    interrupted.signal(Signal::TERM);
    interrupted.finish().returned(128 + 15);
    let mut watching = host.start("ferretto", &["status", "--watch"]);
    // Without a terminal, there are no control codes.
    watching.wait_for("service ");
    watching.wait_for("\nno recordings\n");
    service.signal(Signal::TERM);
    service.finish().returned(0);
    let output = watching.finish().returned(1);
    assert!(!output.text().contains('\x1b'), "{output:?}");
    output.complained("is gone");
    // A closed output pipe is not an error.
    let service = host.start_daemon("traced", &[], "TRACED_NOTIFY_FD");
    let mut left = host.start("ferretto", &["status", "--watch"]);
    left.wait_for("no recordings");
    drop(left.child().stdout.take());
    let output = left.finish();
    assert_eq!(output.stderr, "");
    service.signal(Signal::TERM);
    service.finish().returned(0);
}
