//! `tracebox`: all programs, and recordings with their own service.

use std::os::unix::fs::symlink;
use std::process::Command;

use rustix::process::Signal;

use crate::world::{FERRETTO, Finished, Running, World};

const CONFIG: &str = r#"
buffers { size_kb: 1024 }
data_sources { config { name: "linux.sys_stats" sys_stats_config { meminfo_period_ms: 50 } } }
"#;

/// Removes the names of sockets from the environment, as in a user's terminal.
fn without_sockets(mut command: Command) -> Command {
    command
        .env_remove("PERFETTO_PRODUCER_SOCK_NAME")
        .env_remove("PERFETTO_CONSUMER_SOCK_NAME");
    command
}

fn tracebox(world: &World, args: &[&str]) -> Command {
    without_sockets(world.command("tracebox", args))
}

fn finish(mut command: Command) -> Finished {
    Running::new(command.spawn().unwrap()).finish()
}

#[test]
fn cli_037_programs_are_selected_by_link_or_first_argument() {
    let world = World::new();
    let version = world.run("perfetto", &["--version"]).returned(0);
    symlink(FERRETTO, world.path("tracebox")).unwrap();
    symlink(FERRETTO, world.path("trigger_perfetto")).unwrap();
    let outcome = Command::new(world.path("tracebox"))
        .args(["traced", "--version"])
        .output()
        .unwrap();
    assert_eq!(outcome.stdout, version.stdout);
    let outcome = Command::new(world.path("trigger_perfetto"))
        .output()
        .unwrap();
    let stderr = String::from_utf8(outcome.stderr).unwrap();
    assert!(stderr.contains("At least one trigger must be specified."));

    let outcome = finish(tracebox(&world, &[])).returned(1);
    assert!(outcome.text().contains("Usage: tracebox PROGRAM"));
    finish(tracebox(&world, &["--help"]))
        .returned(1)
        .complained("--system-sockets");
    finish(tracebox(
        &world,
        &["--system-sockets", "-t", "1s", "--system-sockets"],
    ))
    .returned(1)
    .complained("Cannot specify --system-sockets multiple times");
    finish(tracebox(&world, &["websocket_bridge"]))
        .returned(1)
        .complained("websocket_bridge is not supported");
}

#[test]
fn cli_037_simultaneous_recordings_are_independent() {
    let world = World::new();
    world.write(
        "config",
        format!("{CONFIG} unique_session_name: \"the-same\""),
    );
    let start = |out: &str| {
        let args = ["--notify-fd", "9", "--txt", "-c", "config", "-o", out];
        let mut command = without_sockets(world.command_with_9("tracebox", &args));
        let mut running = Running::new(command.spawn().unwrap());
        running.wait_for("\0");
        running
    };
    // The name of a session is unique in a service, so these are different services.
    let (first, second) = (start("first"), start("second"));
    for (running, out) in [(first, "first"), (second, "second")] {
        running.signal(Signal::INT);
        running
            .finish()
            .returned(0)
            .complained(&format!("bytes into {out}\n"));
        assert!(world.summary(out).losses_known());
    }
    assert_eq!(world.names(), ["config", "first", "second"]);
}

#[test]
fn cli_038_the_background_ends_with_a_complete_trace_and_no_daemon() {
    let world = World::new();
    world.write("config", CONFIG);
    let outcome = finish(tracebox(
        &world,
        &["-D", "--txt", "-c", "config", "-o", "out"],
    ))
    .returned(0);
    let pid: i32 = outcome.text().trim().parse().unwrap();
    let process = rustix::process::Pid::from_raw(pid).unwrap();
    let end = rustix::process::pidfd_open(process, rustix::process::PidfdFlags::empty()).unwrap();
    rustix::process::kill_process(process, Signal::INT).unwrap();
    let mut fds = [rustix::event::PollFd::new(
        &end,
        rustix::event::PollFlags::IN,
    )];
    rustix::event::poll(&mut fds, None).unwrap();
    assert!(world.summary("out").losses_known());
    assert_eq!(world.names(), ["config", "out"]);
}

#[test]
fn sockets_of_the_environment_are_used() {
    let world = World::new();
    world.write("config", CONFIG);
    let args = ["--notify-fd", "9", "--txt", "-c", "config", "-o", "out"];
    let mut command = world.command_with_9("tracebox", &args);
    let mut running = Running::new(command.spawn().unwrap());
    running.wait_for("\0");
    let outcome = world.run("perfetto", &["--query"]).returned(0);
    for source in ["linux.sys_stats", "linux.perf", "perfetto.metatrace"] {
        assert!(outcome.text().contains(source), "{}", outcome.text());
    }
    running.signal(Signal::INT);
    running.finish().returned(0);
    assert_eq!(world.names(), ["config", "out"]);
}

#[test]
fn failures_of_the_service_have_an_exit_code_on_request() {
    let world = World::new();
    world.write("config", "data_sources { config { target_buffer: 9 } }");
    let args = ["--txt", "-c", "config", "-o", "out"];
    finish(tracebox(&world, &args))
        .returned(0)
        .complained("Service error: ");
    let mut strict = tracebox(&world, &args);
    strict.env("FERRETTO_STRICT_EXIT", "1");
    finish(strict).returned(1).complained("Service error: ");
}

#[test]
fn the_reason_for_missing_callstacks_is_reported_and_in_the_trace() {
    let world = World::new();
    let config = r#"
buffers { size_kb: 1024 }
duration_ms: 100
data_sources { config { name: "linux.perf" perf_event_config { ring_buffer_pages: 7 } } }
"#;
    world.write("config", config);
    let args = ["--txt", "-c", "config", "-o", "out"];
    finish(tracebox(&world, &args))
        .returned(0)
        .complained("linux.perf: not started: ring_buffer_pages");
    let notes = world.summary("out").notes;
    assert!(
        notes[0].starts_with("linux.perf: not started: ring_buffer_pages"),
        "{notes:?}"
    );
    let outcome = world.run("ferretto", &["summary", "out"]).returned(0);
    assert!(
        outcome
            .text()
            .contains("note: linux.perf: not started: ring_buffer_pages")
    );
}
