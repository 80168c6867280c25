//! `traced`, `traced_probes` and `traced_perf`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use rustix::process::Signal;

use crate::world::{Running, World, until};

/// Starts a service with sockets in the folder of the test.
pub(crate) fn traced(world: &World) -> Running {
    world.start_daemon("traced", &[], "TRACED_NOTIFY_FD")
}

/// Starts the data sources of the system, connected to the service of the test.
pub(crate) fn traced_probes(world: &World) -> Running {
    world.start_daemon("traced_probes", &[], "TRACED_PROBES_NOTIFY_FD")
}

#[test]
fn perf_021_the_profiler_registers_and_drops_privileges() {
    let world = World::new();
    let _service = traced(&world);
    // Ends when it has received a 1.
    let running = world.start_daemon("traced_perf", &[], "TRACED_PERF_NOTIFY_FD");
    let output = world.run("perfetto", &["--query"]).returned(0);
    assert!(output.text().contains("linux.perf"), "{}", output.text());
    let status = fs::read_to_string(format!("/proc/{}/status", running.pid())).unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        u64::from_str_radix(line.unwrap().trim(), 16).unwrap()
    };
    // The profiler keeps no other capabilities: for owners, modules, networks and so on.
    let needless = 1 << 0 | 1 << 1 | 1 << 7 | 1 << 12 | 1 << 16;
    assert_eq!(field("CapEff:") & needless, 0);
    assert_eq!(field("CapPrm:") & needless, 0);
    assert!(status.contains("NoNewPrivs:\t1"));
    running.signal(Signal::TERM);
    running.finish().returned(0);
}

#[test]
fn daemons_print_their_version_and_usage() {
    let world = World::new();
    let programs = [
        "traced",
        "traced_probes",
        "traced_perf",
        "traced_relay",
        "perfetto",
    ];
    for program in programs {
        let output = world.run(program, &["--version"]).returned(0);
        assert!(output.text().starts_with("Perfetto v"), "{}", output.text());
        assert_eq!(output.text().lines().count(), 1);
        for wrong in ["--no-such-flag", "--help"] {
            world
                .run(program, &[wrong])
                .returned(1)
                .complained("Usage: ");
        }
        // The name of the program as first argument is equivalent.
        let again = world.run("ferretto", &[program, "--version"]).returned(0);
        assert_eq!(again.stdout, output.stdout);
    }
}

/// `TRACED_PERF_NOTIFY_FD` receives its byte, and only sizes that the kernel can copy are accepted.
#[test]
fn perf_021_the_profiler_notifies_when_it_is_registered() {
    let world = World::new();
    let _service = traced(&world);
    let args = ["--stack-bytes", "16384"];
    let running = world.start_daemon("traced_perf", &args, "TRACED_PERF_NOTIFY_FD");
    running.signal(Signal::TERM);
    running.finish().returned(0);
    for size in ["7", "0", "65536", "many"] {
        let output = world
            .run("traced_perf", &["--stack-bytes", size])
            .returned(1);
        output.complained("--stack-bytes takes a multiple of 8 up to 65528");
    }
}

#[test]
fn traced_ends_cleanly_and_removes_its_sockets() {
    let world = World::new();
    for signal in [Signal::TERM, Signal::INT] {
        let running = traced(&world);
        running.signal(signal);
        running
            .finish()
            .returned(0)
            .complained("Started traced, listening on ");
        assert!(world.names().is_empty(), "{:?}", world.names());
    }
}

#[test]
fn cli_036_the_socket_of_a_running_service_is_not_replaced() {
    let world = World::new();
    let running = traced(&world);
    world
        .run("traced", &[] as &[&str])
        .returned(1)
        .complained("Failed to start the traced service")
        .complained("is in use by a running service");
    world.run("perfetto", &["--query"]).returned(0);
    drop(running);
    // A killed service leaves stale sockets, which are replaced.
    assert!(world.path("consumer.sock").exists());
    let again = traced(&world);
    again.signal(Signal::TERM);
    again.finish().returned(0);
    // A file that is not a socket is not touched.
    world.write("producer.sock", "precious");
    world
        .run("traced", &[] as &[&str])
        .returned(1)
        .complained("is not a socket");
    assert_eq!(world.read("producer.sock"), b"precious");
}

#[test]
fn cli_033_sockets_have_the_modes_of_the_options() {
    let world = World::new();
    let group = rustix::process::getegid().as_raw();
    let permissions = format!("{group}:0622:{group}:0600");
    let running = world.start("traced", &["--set-socket-permissions", &permissions]);
    let mode = |name: &str| {
        let metadata = fs::metadata(world.path(name)).ok()?;
        Some(metadata.permissions().mode() & 0o777)
    };
    until("the modes are set", || {
        (mode("producer.sock") == Some(0o622) && mode("consumer.sock") == Some(0o600)).then_some(())
    });
    drop(running);
    for (wrong, expected) in [
        ("0:660:0:0600", "must be a 4-digit octal number"),
        (
            "no-such-group-here:0660:0:0600",
            "Failed to get group information of no-such-group-here",
        ),
        ("0:0660", "--set-socket-permissions"),
    ] {
        world
            .run("traced", &["--set-socket-permissions", wrong])
            .returned(1)
            .complained(expected);
    }
}

#[test]
fn options_set_quotas_of_users_and_the_idle_timeout_of_the_service() {
    let world = World::new();
    let options = ["--user-cpu", "0", "--watchdog", "process"];
    let running = world.start("traced", &options);
    until("it listens", || {
        world.path("consumer.sock").exists().then_some(())
    });
    drop(running);
    for (option, wrong, expected) in [
        (
            "--user-cpu",
            "101",
            "percent of a CPU, 0 to 100, not \"101\"",
        ),
        (
            "--user-cpu",
            "much",
            "percent of a CPU, 0 to 100, not \"much\"",
        ),
        ("--watchdog", "off", "own or process, not \"off\""),
    ] {
        world
            .run("traced", &[option, wrong])
            .returned(1)
            .complained(expected);
    }
}

#[test]
fn cli_034_and_cli_035_all_sockets_of_a_list_accept_after_the_notification() {
    let world = World::new();
    let names = [world.path("one.sock"), world.path("two.sock")];
    let list = format!("{},{}", names[0].display(), names[1].display());
    let mut command = world.command_with_9("traced", &[] as &[&str]);
    command
        .env("TRACED_NOTIFY_FD", "9")
        .env("PERFETTO_PRODUCER_SOCK_NAME", &list);
    let mut service = Running::new(command.spawn().unwrap());
    service.wait_for("1");
    for name in names.into_iter().chain([world.path("consumer.sock")]) {
        UnixStream::connect(name).unwrap();
    }
    service.signal(Signal::TERM);
    service
        .finish()
        .returned(0)
        .complained(&format!("listening on {list} "));
}

#[test]
fn ipc_067_a_relay_endpoint_that_is_not_a_producer_socket_is_an_error() {
    let world = World::new();
    world
        .run("traced", &["--enable-relay-endpoint-on", "127.0.0.1:20001"])
        .returned(1)
        .complained("--enable-relay-endpoint-on=127.0.0.1:20001 does not match any socket")
        .complained("producer.sock");
    assert!(world.names().is_empty(), "{:?}", world.names());
}

#[test]
fn relay_001_a_relay_without_a_host_prints_its_usage() {
    let mut world = World::new();
    let output = world.run("traced_relay", &[] as &[&str]).returned(1);
    output
        .complained("PERFETTO_RELAY_SOCK_NAME is not set")
        .complained("Usage: traced_relay");
    for (name, complaint) in [
        ("", "Usage: traced_relay"),
        ("host:65536", "is not of the form HOST:PORT"),
        ("vsock://1", "is not of the form vsock://CID:PORT"),
    ] {
        world.set("PERFETTO_RELAY_SOCK_NAME", name);
        let output = world.run("traced_relay", &[] as &[&str]).returned(1);
        output.complained(complaint);
    }
    let permissions = ["--set-socket-permissions", "nobody"];
    world.set("PERFETTO_RELAY_SOCK_NAME", "@nobody");
    let output = world.run("traced_relay", &permissions).returned(1);
    output.complained("Failed to set socket permissions: \"nobody\" is not GROUP:MODE");
    let own = world.path("producer.sock");
    world.set("PERFETTO_RELAY_SOCK_NAME", own.to_str().unwrap());
    let output = world.run("traced_relay", &[] as &[&str]).returned(1);
    output.complained("where this relay would listen itself");
    assert!(world.names().is_empty(), "{:?}", world.names());
}

#[test]
fn relay_002_a_relay_listens_without_a_host() {
    let mut world = World::new();
    world.set("PERFETTO_RELAY_SOCK_NAME", "127.0.0.1:1");
    for signal in [Signal::TERM, Signal::INT] {
        // Ends when it has received a 1.
        let relay = world.start_daemon("traced_relay", &[], "TRACED_RELAY_NOTIFY_FD");
        assert_eq!(world.names(), ["producer.sock"]);
        relay.signal(signal);
        let output = relay.finish().returned(0);
        output
            .complained("Started traced_relay, listening on ")
            .complained("forwarding to 127.0.0.1:1");
        assert!(world.names().is_empty(), "{:?}", world.names());
    }
}

#[test]
fn background_prints_the_process_id_once_detached() {
    let world = World::new();
    let output = world.run("traced", &["--background"]).returned(0);
    let pid: i32 = output.text().trim().parse().unwrap();
    let stop = Stop(pid);
    assert_eq!(
        fs::read_to_string(format!("/proc/{pid}/comm"))
            .unwrap()
            .trim(),
        "traced"
    );
    assert_eq!(
        fs::read_link(format!("/proc/{pid}/cwd"))
            .unwrap()
            .as_os_str(),
        "/"
    );
    until("it answers", || {
        (world.run("perfetto", &["--query"]).code == 0).then_some(())
    });
    drop(stop);
    until("its sockets are removed", || {
        world.names().is_empty().then_some(())
    });
}

/// Ends a background process at the end of the test.
pub(crate) struct Stop(pub(crate) i32);

impl Drop for Stop {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_raw(self.0).unwrap();
        let _ = rustix::process::kill_process(pid, Signal::TERM);
    }
}

#[test]
fn traced_probes_waits_for_a_service_and_ends_cleanly() {
    let world = World::new();
    let probes = world.start("traced_probes", &[] as &[&str]);
    let service = traced(&world);
    until("the data sources are registered", || {
        let state = world.run("perfetto", &["--query"]).returned(0);
        state.text().contains("linux.process_stats").then_some(())
    });
    probes.signal(Signal::TERM);
    probes.finish().returned(0);
    drop(service);
}
