//! Tests of the report on a recorded command.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::world::World;

/// No track events, since commands are described even if they write none.
const COUNTERS: &str = "
    buffers { size_kb: 1024 }
    data_sources { config { name: \"linux.sys_stats\"
      sys_stats_config { meminfo_period_ms: 100 meminfo_counters: MEMINFO_MEM_FREE } } }
    data_sources { config { name: \"linux.process_stats\"
      process_stats_config { scan_all_processes_on_start: true } } }
";

#[test]
fn a_recording_of_a_command_describes_it_at_start_and_end() {
    let world = World::new();
    world.write("config", COUNTERS);
    let script = "echo \"$$\"; sleep 0.2";
    let args = [
        "record", "-c", "config", "-o", "t", "--", "sh", "-c", script,
    ];
    let output = world.run("ferretto", &args).returned(0);
    let pid = output.text().trim().to_owned();
    let position =
        |text: &str, what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
    let is_first = |text: &str| {
        let command = position(text, "\ncommand\n  sh -c echo");
        assert!(command < position(text, "\nevents\n"), "{text}");
        position(text, &format!("pid {pid}"));
    };
    is_first(&output.stderr);
    is_first(world.run("ferretto", &["summary", "t"]).returned(0).text());
    let json = world
        .run("ferretto", &["summary", "--json", "t"])
        .returned(0);
    let json = json.text();
    assert!(
        json.starts_with("{\"version\":1,\"file\":\"t\",") && json.ends_with("}\n"),
        "{json}"
    );
    position(json, "\"complete\":true");
    position(json, &format!("\"pid\":{pid},"));
    // The summary can also be read from a pipe.
    let args = [
        "record", "-q", "-c", "config", "-o", "-", "--", "sleep", "0.1",
    ];
    let piped = world.run("ferretto", &args).returned(0).stdout;
    let command = ferretto_trace::summarize(&piped[..])
        .unwrap()
        .command
        .unwrap();
    assert_eq!(command.command, "sleep 0.1");
    assert!(command.pid.is_some());
}

#[test]
fn a_command_that_cannot_be_executed_has_the_exit_code_of_shells() {
    let world = World::new();
    world.write("config", COUNTERS);
    for (content, code, reason) in [
        ("not a program", 126, "Exec format error"),
        ("#!/no/such/interpreter\n", 127, "No such file or directory"),
    ] {
        let path = world.write("command", content);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        let args = ["record", "-c", "config", "-o", "t", "--", "./command"];
        let output = world.run("ferretto", &args).returned(code);
        output.complained(&format!("ferretto: cannot run ./command: {reason}"));
    }
}

#[test]
fn a_command_whose_recording_never_starts_is_not_a_success() {
    let world = World::new();
    let triggers = "trigger_config { trigger_mode: START_TRACING trigger_timeout_ms: 200
        triggers { name: \"go\" stop_delay_ms: 100 } }";
    world.write("config", format!("{COUNTERS}{triggers}"));
    let args = [
        "record", "-c", "config", "-o", "t", "--", "touch", "started",
    ];
    world
        .run("ferretto", &args)
        .returned(126)
        .complained("the recording ended before the command was started");
    assert_eq!(world.names(), ["config"]);
}

#[test]
fn a_recording_of_the_machine_describes_no_command() {
    let world = World::new();
    world.write("config", COUNTERS);
    let args = ["record", "-c", "config", "-o", "t", "-d", "100ms"];
    let output = world.run("ferretto", &args).returned(0);
    assert!(!output.stderr.contains("\ncommand\n"), "{}", output.stderr);
    assert_eq!(world.summary("t").command, None);
}

#[test]
fn text_may_be_one_line_for_each_event() {
    let world = World::new();
    let trace = ferretto_wire::encode(|trace| {
        for time in [7_000_000_000u64, 5_000_000_123] {
            trace.nested(1, |packet| {
                packet.varint(8, time);
                packet.varint(10, 1);
                packet.varint(13, 1);
                packet.varint(79, 42);
                packet.nested(11, |event| {
                    event.varint(9, 3);
                    event.string(23, "tick");
                });
            });
        }
    });
    world.write("t", &trace);
    let output = world
        .run("ferretto", &["text", "--resolve", "t"])
        .returned(0);
    let expected = "           <...>-42      [---]      5.000000123: instant: tick\n           \
                    <...>-42      [---]      7.000000000: instant: tick\n";
    assert_eq!(output.text(), expected);
    world
        .run("ferretto", &["text", "--resolve", "-"])
        .returned(1)
        .complained("reads a trace twice");
    world.write("cut", &trace[..trace.len() - 1]);
    world
        .run("ferretto", &["text", "--resolve", "cut"])
        .returned(3)
        .complained("the file ends inside a packet");
}
