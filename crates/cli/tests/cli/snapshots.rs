//! Triggers with their snapshots, and clones for bug reports.

use std::io::Read as _;

use rustix::process::Signal;

use crate::daemons::{traced, traced_probes};
use crate::world::{FERRETTO, Running, World, until};

const CONFIG: &str = r#"
buffers { size_kb: 1024 }
data_sources { config { name: "linux.sys_stats" sys_stats_config { meminfo_period_ms: 100 } } }
trigger_config {
  trigger_mode: CLONE_SNAPSHOT
  trigger_timeout_ms: 600000
  triggers { name: "one" }
  triggers { name: "two" }
  triggers { name: "three" }
}
"#;

fn holds(world: &World, name: &str, text: &str) -> bool {
    let trace = world.read(name);
    trace
        .windows(text.len())
        .any(|part| part == text.as_bytes())
}

#[test]
fn cli_026_each_trigger_writes_a_file_and_the_recording_continues() {
    let world = World::new();
    let (_service, _probes) = (traced(&world), traced_probes(&world));
    world.write("config", CONFIG);
    let mut recording = world.start_recording(&["-o", "out"]);
    world.run("trigger_perfetto", &["one"]).returned(0);
    recording.wait_for_complaint("bytes into out.0\n");
    world.run("trigger_perfetto", &["two"]).returned(0);
    recording.wait_for_complaint("bytes into out.1\n");
    assert!(holds(&world, "out.0", "one") && !holds(&world, "out.0", "SIGINT"));
    assert!(holds(&world, "out.1", "two"));
    for name in ["out.0", "out.1"] {
        assert!(world.summary(name).losses_known(), "{name}");
    }
    recording.signal(Signal::INT);
    recording
        .finish()
        .returned(0)
        .complained("bytes into out\n");
    let sockets = [
        "config",
        "consumer.sock",
        "out",
        "out.0",
        "out.1",
        "producer.sock",
    ];
    assert_eq!(world.names(), sockets);
}

#[test]
fn cli_026_simultaneous_triggers_have_complete_snapshots() {
    let world = World::new();
    let (_service, _probes) = (traced(&world), traced_probes(&world));
    world.write("config", CONFIG);
    let mut recording = world.start_recording(&["-o", "out"]);
    world
        .run("trigger_perfetto", &["one", "two", "three", "one"])
        .returned(0);
    recording.wait_for_complaint("bytes into out.0\n");
    // The other snapshots are still waiting or being made.
    recording.signal(Signal::INT);
    recording.finish().returned(0);
    for (name, trigger) in [
        ("out.0", "one"),
        ("out.1", "two"),
        ("out.2", "three"),
        ("out.3", "one"),
    ] {
        assert!(holds(&world, name, trigger), "{name}");
        assert!(world.summary(name).losses_known(), "{name}");
    }
}

#[test]
fn cli_026_snapshots_of_a_background_recording_are_in_its_folder() {
    let world = World::new();
    let (_service, _probes) = (traced(&world), traced_probes(&world));
    world.write("config", CONFIG);
    let output = world
        .run("perfetto", &["-D", "--txt", "-c", "config", "-o", "out"])
        .returned(0);
    let _stop = crate::daemons::Stop(output.text().trim().parse().unwrap());
    world.run("trigger_perfetto", &["one"]).returned(0);
    until("the snapshot is written", || {
        let path = world.path("out.0");
        (path.exists() && world.summary("out.0").losses_known()).then_some(())
    });
}

#[test]
fn cli_028_a_config_may_activate_triggers() {
    let world = World::new();
    world.write(
        "triggers",
        "activate_triggers: \"one\" activate_triggers: \"two\"",
    );
    let activate = ["--txt", "-c", "triggers"];
    world
        .run("perfetto", &activate)
        .returned(1)
        .complained("cannot reach the tracing service");
    let (_service, _probes) = (traced(&world), traced_probes(&world));
    world.write("config", CONFIG);
    let mut recording = world.start_recording(&["-o", "out"]);
    let output = world.run("perfetto", &activate).returned(0);
    assert_eq!(output.stderr, "");
    recording.wait_for_complaint("bytes into out.1\n");
    assert!(holds(&world, "out.1", "two"));
    // An output is neither needed nor written.
    world
        .run("perfetto", &["--txt", "-c", "triggers", "-o", "none"])
        .returned(0);
    assert!(!world.path("none").exists());
}

#[test]
fn record_makes_snapshots_too() {
    let world = World::new();
    world.write("config", CONFIG);
    let args = ["record", "-c", "config", "-o", "out", "--"];
    // The command uses the service of the recording.
    let command = ["sh", "-c", "exec \"$0\" trigger_perfetto one two", FERRETTO];
    let output = world
        .run("ferretto", &[&args[..], &command].concat())
        .returned(0)
        .complained("out.0: a snapshot, for the trigger one\n")
        .complained("out.1: a snapshot, for the trigger two\n");
    assert!(holds(&world, "out.1", "two"), "{}", output.stderr);

    world
        .run("ferretto", &["record", "-c", "config", "-o", "-"])
        .returned(1)
        .complained("the config requests snapshots");
    world.write("config", "activate_triggers: \"one\"");
    world
        .run("ferretto", &["record", "-c", "config"])
        .returned(1)
        .complained("the config only activates triggers");
}

/// Starts a recording with a bug report score.
fn scored(world: &World, score: i32, more: &str, out: &str) -> Running {
    let endless = CONFIG.split("trigger_config").next().unwrap();
    world.write(
        "config",
        format!("{endless} bugreport_score: {score} {more}"),
    );
    world.start_recording(&["-o", out])
}

#[test]
fn clones_for_bug_reports_are_in_the_temporary_folder() {
    let world = World::new();
    let (_service, _probes) = (traced(&world), traced_probes(&world));
    world
        .run("perfetto", &["--save-all-for-bugreport"])
        .returned(0)
        .complained("No tracing sessions eligible for bugreport were found.");
    world
        .run("perfetto", &["--save-for-bugreport"])
        .returned(0)
        .complained("Service error: Failed to clone tracing session 18446744073709551615: ");
    assert!(!world.path("systrace.pftrace").exists());

    let _low = scored(&world, 1, "bugreport_filename: \"low.pftrace\"", "a");
    let _high = scored(&world, 9, "unique_session_name: \"high\"", "b");
    world
        .run("perfetto", &["--save-for-bugreport"])
        .returned(0)
        .complained("Invoked perfetto with --save-for-bugreport")
        .complained("systrace.pftrace");
    assert!(holds(&world, "systrace.pftrace", "high"));
    world.write("systrace.pftrace", "is replaced");
    let output = world
        .run("perfetto", &["--save-all-for-bugreport"])
        .returned(0);
    assert!(output.stderr.contains("with score 9"), "{}", output.stderr);
    assert!(holds(&world, "systrace.pftrace", "high"));
    assert!(world.summary("low.pftrace").losses_known());
    // In another file on request.
    world
        .run("perfetto", &["--save-for-bugreport", "-o", "here"])
        .returned(0);
    assert!(holds(&world, "here", "high"));
}

#[test]
fn cli_022_the_descriptor_receives_one_byte_and_its_end() {
    let world = World::new();
    let read_notification = |args: &[&str]| {
        let mut output = Vec::new();
        let mut child = world.command_with_9("perfetto", args).spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_to_end(&mut output).unwrap();
        (output, Running::new(child))
    };
    let endless = CONFIG.split("trigger_config").next().unwrap();
    world.write("config", endless);
    let args = ["--notify-fd", "9", "--txt", "-c", "config", "-o", "out"];
    let (output, failed) = read_notification(&args);
    failed.finish().returned(1);
    assert_eq!(output, [1], "there is no service");

    let (_service, _probes) = (traced(&world), traced_probes(&world));
    let (output, recording) = read_notification(&args);
    assert_eq!(output, [0]);
    recording.signal(Signal::INT);
    recording.finish().returned(0);

    world
        .run(
            "perfetto",
            &["--notify-fd", "77", "--txt", "-c", "config", "-o", "out"],
        )
        .returned(1)
        .complained("--notify-fd 77 is not an open descriptor");
}
