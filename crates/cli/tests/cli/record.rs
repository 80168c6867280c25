//! `ferretto record` with its own service and data sources.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use rustix::process::Signal;

use crate::world::{Running, World, has_content, until};

/// A config without kernel events, which work for every user and do not disturb other tests.
pub(crate) const COUNTERS: &str = r#"
buffers { size_kb: 4096 }
data_sources { config { name: "linux.sys_stats" sys_stats_config { meminfo_period_ms: 100 } } }
data_sources { config { name: "linux.process_stats"
    process_stats_config { scan_all_processes_on_start: true } } }
write_into_file: true
file_write_period_ms: 100
"#;

fn samples(world: &World, name: &str) -> u64 {
    let summary = world.summary(name);
    assert!(summary.losses.is_empty(), "{:?}", summary.losses);
    let source = summary
        .sources
        .iter()
        .find(|source| source.name == "linux.sys_stats");
    source.map_or(0, |source| source.events)
}

#[test]
fn the_machine_is_recorded_without_any_configuration() {
    let world = World::new();
    let outcome = world
        .run("ferretto", &["record", "-d", "300ms"])
        .returned(0)
        .complained("no data lost");
    assert!(outcome.stdout.is_empty());
    let summary = world.summary("trace.pftrace");
    let has = |name: &str| summary.sources.iter().any(|source| source.name == name);
    assert!(
        has("linux.process_stats") && has("linux.sys_stats"),
        "{summary:#?}"
    );
    if has("linux.ftrace") {
        assert!(!summary.processes.is_empty())
    } else {
        // The reason was reported.
        eprintln!("skipped: kernel events are not allowed here");
        assert!(
            outcome.stderr.contains("linux.ftrace is not recorded"),
            "{}",
            outcome.stderr
        );
    }
    let mode = world
        .path("trace.pftrace")
        .metadata()
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(
        world.names(),
        ["trace.pftrace"],
        "nothing else is left behind"
    );
}

/// On a busy machine, what is read late is overwritten.
#[test]
fn root_reads_kernel_events_ahead_of_other_programs() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: this is not root");
        return;
    }
    let world = World::new();
    // Names and nice values of the recorder's threads, and the command's own.
    let script = "for t in /proc/$PPID/task/*; do echo $(cat $t/comm) $(cut -d' ' -f19 $t/stat); done; echo own $(nice)";
    let outcome = world
        .run("ferretto", &["record", "--", "sh", "-c", script])
        .returned(0);
    let printed = String::from_utf8(outcome.stdout).unwrap();
    let threads: Vec<&str> = printed.lines().collect();
    assert!(threads.contains(&"ferretto-probes -10"), "{threads:?}");
    assert!(threads.contains(&"own 0"), "{threads:?}");
}

/// Each of two readers of one kernel buffer would read only a part of the events.
#[test]
fn simultaneous_recordings_have_separate_kernel_buffers() {
    let world = World::new();
    let start = |name: &str| {
        let mut command = world.command("ferretto", &["record", "-d", "300ms", "-o", name]);
        command.spawn().expect("the command runs")
    };
    let mut running = [start("a.pftrace"), start("b.pftrace")];
    for recording in &mut running {
        assert!(recording.wait().expect("it ends").success());
    }
    for (name, recording) in ["a.pftrace", "b.pftrace"].into_iter().zip(&running) {
        let summary = world.summary(name);
        if !summary
            .sources
            .iter()
            .any(|source| source.name == "linux.ftrace")
        {
            println!("skipped: kernel events are not allowed here");
            return;
        }
        let instance = format!("ferretto-{}", recording.id());
        let text = world.run("ferretto", &["text", name]).returned(0);
        assert!(
            text.text()
                .contains(&format!("instance_name: \"{instance}\""))
        );
        let path = format!("/sys/kernel/tracing/instances/{instance}");
        assert!(
            !std::path::Path::new(&path).exists(),
            "{path} is left behind"
        );
    }
}

#[test]
fn a_config_in_either_format_is_recorded() {
    let world = World::new();
    world.write("text.cfg", COUNTERS);
    let args = ["record", "-c", "text.cfg", "-o", "a.pftrace", "-d", "300ms"];
    world.run("ferretto", &args).returned(0);
    assert!(samples(&world, "a.pftrace") >= 2);
    // Without write_into_file, and from standard input.
    let buffered = COUNTERS.replace("write_into_file: true", "duration_ms: 300");
    let config = world.write("buffered.cfg", buffered);
    let mut command = world.command("ferretto", &["record", "-c", "-", "-o", "b.pftrace"]);
    let output = command
        .stdin(std::fs::File::open(config).unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(samples(&world, "b.pftrace") >= 2);
}

#[test]
fn the_default_config_can_be_printed_and_used() {
    let world = World::new();
    let outcome = world
        .run("ferretto", &["record", "--print-config"])
        .returned(0);
    assert!(
        outcome
            .text()
            .contains("ftrace_events: \"sched/sched_switch\""),
        "{}",
        outcome.text()
    );
    assert_eq!(world.names(), [] as [&str; 0]);
    world.write("default.cfg", &outcome.stdout);
    let again = world.run(
        "ferretto",
        &["record", "-c", "default.cfg", "--print-config"],
    );
    assert_eq!(again.returned(0).stdout, outcome.stdout);
}

#[test]
fn a_file_size_limit_is_an_error_and_keeps_the_written_data() {
    let world = World::new();
    world.write("c.cfg", COUNTERS);
    let script = "ulimit -f 4; exec \"$0\" record -c c.cfg -d 10s -o t";
    let outcome = std::process::Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_ferretto")])
        .current_dir(world.path(""))
        .output()
        .unwrap();
    let stderr = String::from_utf8(outcome.stderr).unwrap();
    assert_eq!(outcome.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("File too large"), "{stderr}");
    assert!(world.summary("t").packets > 0);
}

#[test]
fn a_misspelt_config_is_reported_with_location_and_suggestion() {
    let world = World::new();
    world.write(
        "bad.cfg",
        "buffers { size_kb: 4 }\ndata_sources { config { nme: \"x\" } }\n",
    );
    let outcome = world
        .run("ferretto", &["record", "-c", "bad.cfg"])
        .returned(1);
    assert!(
        outcome.stderr.contains("bad.cfg:2:25"),
        "{}",
        outcome.stderr
    );
    assert!(
        outcome.stderr.contains("did you mean \"name\"?"),
        "{}",
        outcome.stderr
    );
    assert_eq!(world.names(), ["bad.cfg"], "no trace is created");
}

#[test]
fn a_misspelt_data_source_is_refused_with_the_nearest_name() {
    let world = World::new();
    world.write(
        "c.cfg",
        COUNTERS.replace("linux.process_stats", "linux.proces_stats"),
    );
    for more in [&["-d", "100ms"][..], &["-q", "--", "touch", "started"]] {
        let args = [&["record", "-c", "c.cfg"], more].concat();
        world.run("ferretto", &args).returned(1).complained(
            "unknown data source \"linux.proces_stats\"; did you mean \"linux.process_stats\"?",
        );
    }
    assert_eq!(world.names(), ["c.cfg"], "no trace, no command");
}

#[test]
fn a_config_the_service_refuses_leaves_no_file() {
    let world = World::new();
    world.write(
        "bad.cfg",
        "buffers { size_kb: 4 } data_sources { config { target_buffer: 7 } }",
    );
    world
        .run("ferretto", &["record", "-c", "bad.cfg"])
        .returned(1)
        .complained("out of bounds target_buffer")
        .complained("nothing was recorded");
    assert_eq!(world.names(), ["bad.cfg"]);
}

#[test]
fn the_exit_code_of_the_command_is_passed_on() {
    let world = World::new();
    world.write("c.cfg", COUNTERS);
    let record = |command: &[&str]| {
        let mut args = vec!["record", "-q", "-c", "c.cfg", "--"];
        args.extend(command);
        world.run("ferretto", &args)
    };
    assert_eq!(record(&["true"]).returned(0).stderr, "");
    record(&["sh", "-c", "exit 7"]).returned(7);
    record(&["sh", "-c", "kill -9 $$"])
        .returned(137)
        .complained("killed by signal 9");
    // The output of the command is passed on.
    assert_eq!(record(&["echo", "hello"]).returned(0).text(), "hello\n");
    // The command has the address for its events.
    let outcome = record(&[
        "sh",
        "-c",
        "test -S \"$PERFETTO_PRODUCER_SOCK_NAME\" && echo yes",
    ]);
    assert_eq!(outcome.returned(0).text(), "yes\n");
}

#[test]
fn a_missing_command_is_reported_before_any_file_is_written() {
    let world = World::new();
    world.write("plain", "not a program");
    world
        .run("ferretto", &["record", "--", "no-such-command"])
        .returned(127)
        .complained("not found");
    world
        .run("ferretto", &["record", "--", "./plain"])
        .returned(126)
        .complained("not executable");
    assert_eq!(world.names(), ["plain"]);
}

#[test]
fn the_recording_of_a_command_ends_with_it() {
    let world = World::new();
    world.write("c.cfg", COUNTERS);
    let args = [
        "record",
        "-c",
        "c.cfg",
        "--",
        "sh",
        "-c",
        "echo begun; sleep 0.3",
    ];
    let outcome = world.run("ferretto", &args).returned(0);
    assert_eq!(outcome.text(), "begun\n");
    assert!(samples(&world, "trace.pftrace") >= 2);
}

#[test]
fn a_command_may_outlive_the_recording() {
    let world = World::new();
    world.write("c.cfg", COUNTERS);
    let args = [
        "record",
        "-c",
        "c.cfg",
        "-d",
        "100ms",
        "--",
        "sh",
        "-c",
        "sleep 0.5; echo end; exit 3",
    ];
    assert_eq!(world.run("ferretto", &args).returned(3).text(), "end\n");
    assert!(world.summary("trace.pftrace").losses_known());
}

#[test]
fn too_few_open_files_are_told_at_once() {
    let world = World::new();
    for files in ["24", "32", "40"] {
        let script = format!("ulimit -n {files}; exec \"$0\" record -d 100ms");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &script, crate::world::FERRETTO]);
        let running = world.at_home(command).spawn().unwrap();
        let output = crate::world::Running::new(running).finish().returned(1);
        output.complained(&format!("may have {files} open files"));
    }
    assert_eq!(world.names(), [] as [&str; 0]);
}

#[test]
fn ctrl_c_ends_the_recording_with_a_complete_trace() {
    let world = World::new();
    world.write("c.cfg", COUNTERS);
    for signal in [Signal::INT, Signal::TERM] {
        let running = world.start("ferretto", &["record", "-c", "c.cfg", "-d", "0"]);
        until("something is recorded", || {
            has_content(&world.path("trace.pftrace"))
        });
        running.signal(signal);
        running.finish().returned(0).complained("no data lost");
        assert!(
            world.summary("trace.pftrace").losses_known(),
            "the last statistics are there"
        );
        std::fs::remove_file(world.path("trace.pftrace")).unwrap();
    }
    assert_eq!(world.names(), ["c.cfg"]);
}

#[test]
fn a_signal_to_end_reaches_the_command_and_its_last_events_are_awaited() {
    let world = World::new();
    world.write("c.cfg", COUNTERS);
    let script = "trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let args = ["record", "-c", "c.cfg", "--", "sh", "-c", script];
    let mut running = world.start("ferretto", &args);
    running.wait_for("ready");
    running.signal(Signal::TERM);
    let outcome = running.finish().returned(5);
    assert_eq!(outcome.text().trim(), "bye");
    assert!(world.summary("trace.pftrace").losses_known());
}

#[test]
fn a_recording_under_nohup_keeps_the_hangup_signal_ignored() {
    let world = World::new();
    world.write("c.cfg", COUNTERS);
    let program = world.command::<&str>("ferretto", &[]);
    let mut shell = Command::new("sh");
    // The shell becomes the recorder, which has its process id.
    let recorder = "exec \"$0\" record -c c.cfg";
    let command = "sed -n 's/^SigIgn:\\s*//p' /proc/self/status /proc/$$/status";
    let script = format!("trap '' HUP; {recorder} -- {command}");
    shell.args(["-c", &script]).arg(program.get_program());
    let output = world.at_home(shell).output().unwrap();
    let masks = String::from_utf8(output.stdout).unwrap();
    let ignored: Vec<_> = masks
        .lines()
        .map(|mask| u64::from_str_radix(mask, 16).unwrap() & 1)
        .collect();
    assert_eq!(ignored, [1, 1], "of the command and of the recorder");
}

#[test]
fn a_second_ctrl_c_aborts() {
    let world = World::new();
    world.write("c.cfg", COUNTERS);
    let script = "trap '' INT TERM; echo ready; while :; do sleep 0.05; done";
    let args = ["record", "-c", "c.cfg", "--", "sh", "-c", script];
    let mut running = world.start("ferretto", &args);
    running.wait_for("ready");
    running.signal(Signal::INT);
    // Signals that arrive together count once, so the second is sent until it has its effect.
    until("it is aborted", || {
        let ended = running.child().try_wait().unwrap().is_some();
        if !ended {
            running.signal(Signal::INT);
        }
        ended.then_some(())
    });
    running.finish().returned(137).complained("aborted");
    assert_eq!(
        world.names(),
        ["c.cfg", "trace.pftrace"],
        "no sockets are left behind"
    );
}

#[test]
fn outputs_that_cannot_be_written_are_errors() {
    let world = World::new();
    world.write("c.cfg", COUNTERS);
    world
        .run(
            "ferretto",
            &["record", "-c", "c.cfg", "-o", "no/such/folder/t"],
        )
        .returned(1)
        .complained("ferretto: cannot write no/such/folder/t: No such file or directory\n");
    world
        .run("ferretto", &["record", "-c", "c.cfg", "-o", "."])
        .returned(1)
        .complained("cannot write .");
    let full = |config: &str| {
        world.write("full.cfg", config);
        let args = ["record", "-c", "full.cfg", "-d", "5s", "-o", "/dev/full"];
        world
            .run("ferretto", &args)
            .returned(1)
            .complained("No space left on device");
        // The service sees only that its pipe was closed.
        let program = world.command::<&str>("ferretto", &[]);
        let mut shell = Command::new("sh");
        shell.args(["-c", "\"$0\" record -c full.cfg -d 5s -o - > /dev/full"]);
        shell.arg(program.get_program());
        let outcome = Running::new(world.at_home(shell).spawn().unwrap()).finish();
        let outcome = outcome.returned(1);
        assert_eq!(
            outcome.stderr,
            "ferretto: cannot write to standard output: No space left on device\n"
        );
    };
    full(COUNTERS);
    full(
        &COUNTERS
            .replace("write_into_file: true", "")
            .replace("file_write_period_ms: 100", ""),
    );
}

#[test]
fn the_trace_can_be_written_to_standard_output() {
    let world = World::new();
    world.write("c.cfg", COUNTERS);
    let args = ["record", "-c", "c.cfg", "-d", "300ms", "-o", "-"];
    let outcome = world.run("ferretto", &args).returned(0);
    world.write("out.pftrace", &outcome.stdout);
    assert!(samples(&world, "out.pftrace") >= 2);
    assert!(
        outcome.stderr.contains("standard output: "),
        "{}",
        outcome.stderr
    );
    assert!(
        outcome.stderr.contains("no data lost"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn without_a_system_service_there_is_a_hint() {
    let world = World::new();
    world
        .run("ferretto", &["record", "--system", "-d", "1s"])
        .returned(1)
        .complained("no tracing service runs on this machine; start traced");
    assert!(world.names().is_empty());
}

#[test]
fn unknown_data_sources_are_reported_at_the_start_and_at_the_end() {
    let world = World::new();
    let config = format!("{COUNTERS}\ndata_sources {{ config {{ name: \"android.heapprofd\" }} }}");
    world.write("config", config);
    let args = ["record", "-c", "config", "-d", "200ms"];
    world
        .run("ferretto", &args)
        .returned(0)
        .complained("unknown data source \"android.heapprofd\"; it records nothing")
        .complained("note: no data from the data source android.heapprofd");
    let notes = world.summary("trace.pftrace").notes;
    assert_eq!(
        notes.len(),
        1,
        "those that are offered wrote something: {notes:?}"
    );
}

#[test]
fn misspelt_kernel_events_and_categories_are_refused_with_the_nearest_names() {
    let missing = ferretto_probes::availability();
    if missing
        .iter()
        .any(|it| it.source == ferretto_probes::FTRACE)
    {
        println!("skipped: kernel events are not allowed here");
        return;
    }
    let world = World::new();
    let config =
        "buffers { size_kb: 1024 } data_sources { config { name: \"linux.ftrace\" ftrace_config {
        ftrace_events: \"sched/sched_swich\" ftrace_events: \"sched_wakup\"
        atrace_categories: \"schd\" atrace_userspace_only: true } } }";
    world.write("config", config);
    world
        .run("ferretto", &["record", "-c", "config", "-d", "100ms"])
        .returned(1)
        .complained(
            "unknown kernel event \"sched/sched_swich\"; did you mean \"sched/sched_switch\"?",
        )
        .complained("unknown kernel event \"sched_wakup\"; did you mean \"sched_wakeup\"?")
        .complained("unknown category \"schd\"; did you mean \"sched\"?");
    assert_eq!(world.names(), ["config"]);
    // Configs for many machines name events that only some of them have.
    let config =
        "buffers { size_kb: 1024 } data_sources { config { name: \"linux.ftrace\" ftrace_config {
        ftrace_events: \"mdss/rotator_bw_ao_as_context\" ftrace_events: \"no_such/thing\" } } }";
    world.write("config", config);
    world
        .run("ferretto", &["record", "-c", "config", "-d", "100ms"])
        .returned(0)
        .complained("unknown kernel event \"no_such/thing\"; it records nothing")
        .complained("this kernel has no kernel event \"mdss/rotator_bw_ao_as_context\"");
}

#[test]
fn triggers_that_never_fired_are_named() {
    let world = World::new();
    let counters = COUNTERS.replace("write_into_file: true", "");
    let config = format!(
        "{counters}\ntrigger_config {{ trigger_mode: START_TRACING trigger_timeout_ms: 100
        triggers {{ name: \"slow-frame\" stop_delay_ms: 10 }} triggers {{ name: \"crash\" stop_delay_ms: 10 }} }}"
    );
    world.write("config", config);
    world
        .run("ferretto", &["record", "-c", "config"])
        .returned(0)
        .complained("none of the triggers slow-frame, crash fired, so nothing was recorded");
}
