//! `perfetto` against `traced` and `traced_probes` as separate processes.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;

use crate::daemons::{Stop, traced, traced_probes};
use crate::world::{World, until};

const CONFIG: &str = r#"
buffers { size_kb: 4096 }
data_sources { config { name: "linux.sys_stats" sys_stats_config { meminfo_period_ms: 100 } } }
duration_ms: 300
"#;

/// The config without an end.
fn endless() -> String {
    CONFIG.replace("duration_ms: 300", "")
}

fn record(world: &World, more: &[&str]) -> crate::world::Finished {
    world.write("config", CONFIG);
    let mut args = vec!["--txt", "-c", "config", "-o", "out"];
    args.extend(more);
    world.run("perfetto", &args)
}

fn samples(world: &World, name: &str) -> u64 {
    let summary = world.summary(name);
    let source = summary
        .sources
        .iter()
        .find(|source| source.name == "linux.sys_stats");
    source.map_or(0, |source| source.events)
}

#[test]
fn cli_013_records_into_a_private_file() {
    let world = World::new();
    let (_service, _probes) = (traced(&world), traced_probes(&world));
    world.write("out", "what was there before is truncated");
    let output = record(&world, &[]).returned(0).complained("TTL: 1s");
    let size = world.path("out").metadata().unwrap().len();
    assert!(
        output
            .stderr
            .contains(&format!("Wrote {size} bytes into out")),
        "{}",
        output.stderr
    );
    assert!(samples(&world, "out") >= 2);

    std::fs::remove_file(world.path("out")).unwrap();
    record(&world, &["--no-clobber"]).returned(0);
    assert_eq!(
        world.path("out").metadata().unwrap().permissions().mode() & 0o777,
        0o600
    );
    let before = world.read("out");
    record(&world, &["--no-clobber"])
        .returned(1)
        .complained("refusing to overwrite");
    assert_eq!(world.read("out"), before);
}

#[test]
fn cli_014_standard_output_has_only_the_trace() {
    let world = World::new();
    let (_service, _probes) = (traced(&world), traced_probes(&world));
    world.write("config", CONFIG);
    let output = world
        .run("perfetto", &["--txt", "-c", "config", "-o", "-"])
        .returned(0);
    world.write("out", output.stdout);
    assert!(samples(&world, "out") >= 2);
}

#[test]
fn cli_016_a_missing_daemon_is_an_error() {
    let world = World::new();
    let socket = world.path("consumer.sock").display().to_string();
    record(&world, &[]).returned(1).complained(&format!(
        "Could not connect to the traced socket {socket}. Ensure traced is running"
    ));
    assert_eq!(world.read("out"), b"");
    world
        .run("perfetto", &["--query"])
        .returned(1)
        .complained("Failed to query the service state");
}

#[test]
fn cli_017_the_daemon_dies_while_tracing() {
    let world = World::new();
    let service = traced(&world);
    world.write("config", endless());
    let running = world.start_recording(&["-o", "out"]);
    drop(service);
    running
        .finish()
        .returned(0)
        .complained("Service error: EnableTracing IPC request rejected.")
        .complained("Disconnected from the traced service");
    assert!(!world.path("out").exists());
}

#[test]
fn cli_018_a_rejected_config_leaves_no_file() {
    let world = World::new();
    let _service = traced(&world);
    world.write(
        "config",
        "buffers { size_kb: 4 } data_sources { config { target_buffer: 9 } }",
    );
    world
        .run("perfetto", &["--txt", "-c", "config", "-o", "out"])
        .returned(0)
        .complained("Service error: ");
    assert!(!world.path("out").exists());
}

#[test]
fn a_full_disk_is_an_error() {
    let world = World::new();
    let (_service, _probes) = (traced(&world), traced_probes(&world));
    for config in [CONFIG.to_owned(), format!("{CONFIG} write_into_file: true")] {
        world.write("config", config);
        world
            .run("perfetto", &["--txt", "-c", "config", "-o", "/dev/full"])
            .returned(1)
            .complained("No space left on device");
    }
    // The service continues.
    world.run("perfetto", &["--query"]).returned(0);
}

#[test]
fn cli_019_signals_end_with_a_complete_trace() {
    let world = World::new();
    let (_service, _probes) = (traced(&world), traced_probes(&world));
    world.write("config", endless());
    for signal in [Signal::INT, Signal::TERM] {
        let running = world.start_recording(&["-o", "out"]);
        running.signal(signal);
        running
            .finish()
            .returned(0)
            .complained("starting tracing")
            .complained("SIGINT/SIGTERM received: disabling tracing.");
        assert!(world.summary("out").losses_known());
    }
}

#[test]
fn signals_end_with_a_complete_trace_in_a_folder_of_all_users() {
    let world = World::new();
    let (_service, _probes) = (traced(&world), traced_probes(&world));
    world.write("config", endless());
    let shared = world.path("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
    for signal in [Signal::INT, Signal::TERM] {
        let running = world.start_recording(&["-o", "shared/out"]);
        running.signal(signal);
        running.finish().returned(0).complained("Wrote ");
        assert!(world.summary("shared/out").losses_known());
    }
}

#[test]
fn cli_020_the_background_prints_only_its_pid() {
    let world = World::new();
    let (_service, _probes) = (traced(&world), traced_probes(&world));
    world.write("config", endless());
    for flag in ["-d", "-D"] {
        let output = world
            .run("perfetto", &[flag, "--txt", "-c", "config", "-o", "out"])
            .returned(0);
        let stop = Stop(output.text().trim().parse().unwrap());
        let state = until("the session is there", || {
            let state = world.run("perfetto", &["--query"]).returned(0);
            state
                .text()
                .contains("Tracing sessions: 1")
                .then_some(state)
        });
        // -D waits until all data sources have started.
        assert!(
            flag == "-d" || state.text().contains("(started: 1)"),
            "{}",
            state.text()
        );
        drop(stop);
        until("the trace is complete", || {
            let state = world.run("perfetto", &["--query"]).returned(0);
            let ended = state.text().contains("Tracing sessions: 0");
            (ended && world.summary("out").losses_known()).then_some(())
        });
        std::fs::remove_file(world.path("out")).unwrap();
    }
}

#[test]
fn cli_021_background_wait_without_a_daemon_fails() {
    let world = World::new();
    let output = record(&world, &["-D"]).returned(1);
    // The id of the process is printed before it fails.
    assert!(output.text().trim().parse::<i32>().is_ok(), "{output:?}");
}

#[test]
fn cli_027_the_state_can_be_queried() {
    let world = World::new();
    let (_service, _probes) = (traced(&world), traced_probes(&world));
    let output = world.run("perfetto", &["--query-raw"]).returned(0);
    let state = <ferretto_proto::TracingServiceState as ferretto_proto::Message>::decode_from_slice(
        &output.stdout,
    );
    let names: Vec<_> = state
        .unwrap()
        .producers
        .into_iter()
        .filter_map(|producer| producer.name)
        .collect();
    assert_eq!(names, [b"perfetto.traced_probes".to_vec()]);
}

#[test]
fn cli_012_the_built_in_config_takes_two_seconds() {
    let world = World::new();
    let (_service, _probes) = (traced(&world), traced_probes(&world));
    world
        .run("perfetto", &["-c", ":test", "-o", "out"])
        .returned(0)
        .complained("TTL: 2s");
    let text = world.run("ferretto", &["text", "out"]).returned(0);
    for name in ["linux.ftrace", "linux.process_stats", "linux.system_info"] {
        let name = format!("name: \"{name}\"");
        assert!(text.text().contains(&name), "{name}: {}", text.text());
    }
    let summary = world.summary("out");
    let sources: Vec<_> = summary.sources.iter().map(|s| s.name.as_str()).collect();
    // Another test may use kernel events at the same time. A busy machine may give the data sources
    // too little time, which is a reported loss.
    assert!(
        sources.contains(&"linux.system_info") || !summary.losses.is_empty(),
        "{sources:?}"
    );
}

#[test]
fn cli_032_a_huge_config_is_refused() {
    let world = World::new();
    let huge = std::fs::File::create(world.path("huge")).unwrap();
    huge.set_len(100 << 20).unwrap();
    world
        .run("perfetto", &["--txt", "-c", "huge", "-o", "out"])
        .returned(1)
        .complained("Could not open huge (the file is too large for a config)");
    world.write("deep", "trigger_config { ".repeat(10_000));
    world
        .run("perfetto", &["--txt", "-c", "deep", "-o", "out"])
        .returned(1)
        .complained("The trace config is invalid, bailing out.");
    assert!(!world.path("out").exists());
}

#[test]
fn cli_040_recordings_have_only_known_fields() {
    let world = World::new();
    let (_service, _probes) = (traced(&world), traced_probes(&world));
    let config = r#"
        buffers { size_kb: 8192 }
        buffers { size_kb: 256 fill_policy: DISCARD }
        data_sources { config { name: "linux.ftrace" ftrace_config {
            ftrace_events: "sched/sched_switch" ftrace_events: "sched/sched_waking" } } }
        data_sources { config { name: "linux.process_stats" target_buffer: 1
            process_stats_config { scan_all_processes_on_start: true proc_stats_poll_ms: 100 } } }
        data_sources { config { name: "linux.sys_stats" target_buffer: 1
            sys_stats_config { meminfo_period_ms: 100 stat_period_ms: 100 vmstat_period_ms: 100 } } }
        data_sources { config { name: "linux.system_info" } }
        duration_ms: 400
    "#;
    for more in [
        "",
        "write_into_file: true",
        "compression_type: COMPRESSION_TYPE_DEFLATE",
    ] {
        world.write("config", format!("{config} {more}"));
        world
            .run("perfetto", &["--txt", "-c", "config", "-o", "out"])
            .returned(0);
        let output = world.run("ferretto", &["text", "out"]).returned(0);
        assert_eq!(output.stderr, "", "damage");
        let text = output.text();
        // Fields unknown to the schema are printed by number.
        let unknown = text
            .lines()
            .find(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit()));
        assert_eq!(unknown, None);
        let packets = text.matches("packet {").count();
        let sequences = text.matches("  trusted_packet_sequence_id: ").count();
        assert!(
            packets > 0 && (packets == sequences || more.contains("DEFLATE")),
            "{packets} {sequences}"
        );
        assert!(world.summary("out").losses_known());
    }
}

#[test]
fn light_mode_streams_into_the_file() {
    let world = World::new();
    let (_service, _probes) = (traced(&world), traced_probes(&world));
    world
        .run("perfetto", &["-t", "300ms", "-s", "1mb", "-o", "out"])
        .returned(0)
        .complained("Trace written into the output file");
    let summary = world.summary("out");
    assert!(
        summary
            .sources
            .iter()
            .any(|source| source.name == "linux.system_info"),
        "{summary:#?}"
    );
}

#[test]
fn cli_002_refused_commands_do_not_change_the_output() {
    let world = World::new();
    world.write("text", CONFIG);
    for (args, expected) in [
        (
            &["-c", "missing", "-o", "out"][..],
            "Could not open missing",
        ),
        (
            &["-c", "text", "-o", "out"],
            "Try adding --txt to the cmdline.",
        ),
        (
            &["--txt", "-c", "text"],
            "Either --out or --upload is required",
        ),
        (
            &["--txt", "-c", "text", "-o", "no/out"],
            "Failed to open no/out.",
        ),
        (
            &["--detach", "k", "--txt", "-c", "text", "-o", "out"],
            "TraceConfig's write_into_file must be true when using --detach",
        ),
        (&["-t", "5", "-o", "out"], "--time argument is invalid"),
    ] {
        world.run("perfetto", args).returned(1).complained(expected);
        assert_eq!(world.names(), ["text"], "{args:?}");
    }
}

const TRIGGERED: &str = r#"
buffers { size_kb: 256 }
trigger_config {
  trigger_mode: STOP_TRACING
  trigger_timeout_ms: 600000
  triggers { name: "enough" producer_name_regex: "perfetto_cmd_producer" }
}
"#;

#[test]
fn cli_029_triggers_end_a_recording() {
    let world = World::new();
    world
        .run("trigger_perfetto", &["enough"])
        .returned(1)
        .complained("cannot reach the tracing service");
    world.run::<&str>("trigger_perfetto", &[]).returned(1);
    let _service = traced(&world);
    world.write("config", TRIGGERED);
    let mut recording = world.start("perfetto", &["--txt", "-c", "config", "-o", "out"]);
    until("the recording ends", || {
        let output = world.run("trigger_perfetto", &["--future-flag", "other", "enough"]);
        output.returned(0).complained("Ignoring unknown arguments");
        recording.child().try_wait().unwrap()
    });
    let trace = world.read("out");
    assert!(trace.windows(6).any(|window| window == b"enough"));
}

#[test]
fn cli_025_a_clone_leaves_its_session_running() {
    let world = World::new();
    let (_service, _probes) = (traced(&world), traced_probes(&world));
    world.write("config", format!("{}unique_session_name: \"s\"", endless()));
    let mut recording = world.start("perfetto", &["--txt", "-c", "config", "-o", "out"]);
    until("there is something to clone", || {
        let output = world.run("perfetto", &["--clone-by-name", "s", "-o", "clone"]);
        output.returned(0);
        (world.path("clone").exists() && samples(&world, "clone") > 0).then_some(())
    });
    world
        .run("perfetto", &["--clone", "12345", "-o", "none"])
        .returned(0)
        .complained(
            "Service error: Failed to clone tracing session 12345: Tracing session not found",
        );
    assert!(!world.path("none").exists());
    assert!(recording.child().try_wait().unwrap().is_none());
    recording.signal(Signal::INT);
    recording.child().wait().unwrap();
    assert!(samples(&world, "out") > 0);
}
