//! Commands that read trace files, and the command line in general.

use ferretto_wire::{Encoder, encode};

use crate::world::World;

/// Returns a trace of two processes on one CPU for three seconds, with a failed flush.
fn trace() -> Vec<u8> {
    let second = 1_000_000_000u64;
    encode(|trace| {
        trace.nested(1, |packet| {
            packet.varint(8, 10 * second);
            packet.nested(69, |event| event.bool(2, true));
            packet.varint(10, 1);
        });
        trace.nested(1, |packet| {
            packet.nested(2, |tree| {
                tree.nested(1, |process| {
                    process.varint(1, 42);
                    process.string(3, "/usr/bin/cargo");
                    process.string(3, "build");
                });
            });
        });
        trace.nested(1, |packet| {
            packet.nested(1, |bundle| {
                for (at, pid, comm) in [(10, 42, "cargo"), (12, 7, "kworker/0:1"), (13, 0, "idle")]
                {
                    bundle.nested(2, |event| {
                        event.varint(1, at * second);
                        event.nested(4, |switch| {
                            switch.string(5, comm);
                            switch.varint(6, pid);
                        });
                    });
                }
            });
        });
        trace.nested(1, |packet| {
            packet.varint(8, 14 * second);
            packet.nested(69, |event| event.bool(5, true));
            packet.varint(10, 1);
        });
        trace.nested(1, |packet| packet.nested(69, |event| event.bool(4, true)));
        trace.nested(1, |packet| packet.nested(35, |stats| stats.varint(15, 2)));
    })
}

#[test]
fn summary_shows_contents_and_losses() {
    let world = World::new();
    world.write("t.pftrace", trace());
    let outcome = world.run("ferretto", &["summary", "t.pftrace"]).returned(0);
    let expected = "\
t.pftrace: 141 bytes, 3.00 s, 6 packets

events
  linux.ftrace                     3    64 bytes  sched_switch 3
  linux.process_stats              1    29 bytes  process_tree 1
  tracing service                  4    36 bytes  service_event 3, trace_stats 1

CPUs
  CPU 0               3 switches  100.0 % busy

top processes by CPU time
      2.00 s   66.7 %  pid 42       cargo build
      1.00 s   33.3 %  pid 7        kworker/0:1

lost  service: the last events may be missing (flush timed out)
      to avoid it: set flush_timeout_ms (now 5000, or 2000 for a program that has not answered yet)
more may be lost
      the trace has no statistics of the kernel's buffers, so their losses are unknown
";
    assert_eq!(outcome.text(), expected, "{}", outcome.text());
    assert_eq!(outcome.stderr, "");
}

#[test]
fn summary_shows_memory_frequencies_and_called_functions() {
    use ferretto_proto::fields::{process_stats, sys_stats, trace_packet};
    let reading = |trace: &mut Vec<u8>, faults: u64, available: u64, khz: u64, rss: u64| {
        trace.extend(encode(|trace| {
            trace.nested(1, |packet| {
                packet.nested(trace_packet::SYS_STATS, |stats| {
                    for (field, key, value) in [
                        (sys_stats::VMSTAT, 49, faults),
                        (sys_stats::VMSTAT, 50, faults / 1000),
                        (sys_stats::MEMINFO, 3, available),
                    ] {
                        stats.nested(field, |entry| {
                            entry.varint(1, key);
                            entry.varint(2, value);
                        });
                    }
                    stats.varint(sys_stats::CPUFREQ_KHZ, khz);
                });
            });
            trace.nested(1, |packet| {
                packet.nested(trace_packet::PROCESS_STATS, |stats| {
                    stats.nested(process_stats::PROCESSES, |process| {
                        process.varint(process_stats::process::PID, 42);
                        process.varint(process_stats::process::VM_RSS_KB, rss);
                    });
                });
            });
        }));
    };
    let mut bytes = Vec::new();
    reading(&mut bytes, 1000, 4 << 20, 1_000_000, 1 << 10);
    reading(&mut bytes, 2500, 1 << 20, 3_000_000, 9 << 10);
    reading(&mut bytes, 3500, 2 << 20, 3_000_000, 5 << 10);
    bytes.extend(encode(|trace| {
        trace.nested(1, |packet| {
            packet.nested(trace_packet::FTRACE_EVENTS, |bundle| {
                bundle.nested(11, |description| {
                    description.varint(1, 65_536);
                    description.bytes(2, &encode(|event| event.string(1, "parse")));
                    description.string(3, "ferretto_4711");
                });
                for at in [5, 6] {
                    bundle.nested(2, |event| {
                        event.varint(1, at);
                        event.nested(65_536, |_| ());
                    });
                }
            });
        });
    }));
    let world = World::new();
    world.write("t", bytes);
    let outcome = world.run("ferretto", &["summary", "t"]).returned(0);
    let text = outcome.text();
    for expected in [
        "2,500 page faults: programs touched memory that they did not have yet; 2 had to wait for a disk",
        "4.0 GiB were available at first, 2.0 GiB at the end, 1.0 GiB at least",
        "+8.0 MiB  from 1.0 MiB to 9.0 MiB at most, 5.0 MiB at the end  pid 42",
        "CPU 0   1.00 to 3.00 GHz, changed once",
        "calls of functions (--uprobe, --kprobe)\n  parse              2 times",
    ] {
        assert!(text.contains(expected), "no {expected:?} in {text}");
    }
    let json = world
        .run("ferretto", &["summary", "--json", "t"])
        .returned(0);
    for expected in [
        r#""page_faults":2500"#,
        r#""highest_khz":3000000"#,
        r#""highest_bytes":9437184"#,
        r#""kind":"probe","name":"parse","count":2"#,
    ] {
        assert!(
            json.text().contains(expected),
            "{expected}: {}",
            json.text()
        );
    }
}

#[test]
fn the_summary_says_of_which_part_of_the_time_a_cpu_was_busy() {
    use ferretto_proto::fields::{
        ftrace_event, ftrace_event_bundle, sched_switch_ftrace_event, trace, trace_packet,
    };
    let switch = |bundle: &mut Encoder<'_, Vec<u8>>, at: u64, prev: u64, next: u64| {
        bundle.nested(ftrace_event_bundle::EVENT, |event| {
            event.varint(ftrace_event::TIMESTAMP, at);
            event.varint(ftrace_event::PID, prev);
            event.nested(ftrace_event::SCHED_SWITCH, |switch| {
                switch.varint(sched_switch_ftrace_event::PREV_PID, prev);
                switch.varint(sched_switch_ftrace_event::NEXT_PID, next);
            });
        });
    };
    // The thread that ran from 20 to 90 is unknown: the switch to thread 3 is missing.
    let bytes = encode(|trace| {
        trace.nested(trace::PACKET, |packet| {
            packet.nested(trace_packet::FTRACE_EVENTS, |bundle| {
                switch(bundle, 10, 1, 2);
                switch(bundle, 20, 2, 4);
                switch(bundle, 90, 3, 1);
                switch(bundle, 100, 1, 0);
            });
        });
    });
    let world = World::new();
    world.write("t", bytes);
    let outcome = world.run("ferretto", &["summary", "t"]).returned(0);
    let expected = "100.0 % busy of the 22.2 % whose threads are known";
    assert!(outcome.text().contains(expected), "{}", outcome.text());
}

#[test]
fn summary_and_text_read_standard_input() {
    let world = World::new();
    let path = world.write("t.pftrace", trace());
    for (command, expected) in [
        ("summary", "standard input: "),
        ("text", "next_comm: \"cargo\""),
    ] {
        let file = std::fs::File::open(&path).unwrap();
        let output = world
            .command("ferretto", &[command, "-"])
            .stdin(file)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.contains(expected), "{text}");
    }
}

#[test]
fn text_prints_unknown_fields_by_number() {
    let world = World::new();
    let odd = encode(|trace| trace.nested(1, |packet| packet.varint(99_999, 7)));
    world.write("t.pftrace", odd);
    let outcome = world.run("ferretto", &["text", "t.pftrace"]).returned(0);
    assert!(outcome.text().contains("99999: 7"), "{}", outcome.text());
}

#[test]
fn a_truncated_trace_is_read_up_to_its_end() {
    let world = World::new();
    let whole = trace();
    world.write("t.pftrace", &whole[..whole.len() - 1]);
    let outcome = world.run("ferretto", &["summary", "t.pftrace"]).returned(3);
    assert!(
        outcome.text().contains("the file ends inside a packet"),
        "{}",
        outcome.text()
    );
    assert!(
        outcome
            .text()
            .contains("no loss is recorded, but there may be one"),
        "{}",
        outcome.text()
    );
    world
        .run("ferretto", &["text", "t.pftrace"])
        .returned(3)
        .complained("ends inside a packet");
}

#[test]
fn a_file_that_is_not_a_trace_is_an_error() {
    let world = World::new();
    world.write("t.json", "{\"traceEvents\": []}");
    let outcome = world.run("ferretto", &["text", "t.json"]).returned(1);
    assert_eq!(
        outcome.stderr,
        "ferretto: cannot read t.json: this is not a Perfetto trace; it looks like JSON, which ferretto import \
         converts to a trace\n"
    );
    for command in ["summary", "text"] {
        world
            .run("ferretto", &[command, "missing"])
            .returned(1)
            .complained("ferretto: cannot open missing: No such file or directory\n");
        world
            .run("ferretto", &[command, "."])
            .returned(1)
            .complained("it is a directory");
    }
    for (path, reason) in [
        ("missing", "No such file or directory"),
        (".", "it is a directory"),
    ] {
        let outcome = world.run("ferretto", &["view", path]).returned(1);
        let expected = format!("ferretto: cannot open {path}: {reason}\n");
        assert_eq!(outcome.stderr, expected);
    }
}

#[test]
fn all_commands_refuse_unreadable_files_with_their_names() {
    let world = World::new();
    world.write("empty", "");
    world.write("noise", [0x81; 64]);
    world.write("good", trace());
    let all: &[&[&str]] = &[
        &["summary"],
        &["text"],
        &["json", "-o", "out"],
        &["view", "-o", "out"],
        &["cut", "--to", "1s", "-o", "out"],
        &["split", "--every", "1s", "-o", "out"],
        &["merge", "good", "-o", "out"],
        &["import", "-o", "out"],
        &["folded", "-o", "out"],
        &["pprof", "-o", "out"],
        &["flamegraph", "-o", "out"],
        &["symbolize", "-o", "out"],
    ];
    for command in all {
        let run = |file| world.run("ferretto", &[command, &[file][..]].concat());
        let empty = run("empty").returned(1);
        assert_eq!(
            empty.stderr, "ferretto: cannot read empty: the file is empty\n",
            "{command:?}"
        );
        let noise = run("noise").returned(1).stderr;
        assert!(noise.starts_with("ferretto: cannot "), "{noise}");
        assert!(
            noise.contains("noise: ") && !noise.contains("ERR"),
            "{noise}"
        );
        let folder = run(".").returned(1).stderr;
        assert_eq!(folder, "ferretto: cannot open .: it is a directory\n");
    }
    assert_eq!(
        world.names(),
        ["empty", "good", "noise"],
        "nothing is written"
    );
    world.write("text", "main;work 3\n");
    world
        .run("ferretto", &["text", "text"])
        .returned(1)
        .complained("ferretto import converts collapsed stacks");
}

#[test]
fn a_closed_output_pipe_is_not_an_error() {
    let world = World::new();
    let many = encode(|trace| (0..100_000).for_each(|n| trace.nested(1, |p| p.varint(8, n))));
    world.write("t.pftrace", many);
    let mut running = world.start("ferretto", &["text", "t.pftrace"]);
    drop(running.child().stdout.take());
    let outcome = running.finish().returned(0);
    assert_eq!(outcome.stderr, "");
}

#[test]
fn wrong_command_lines_return_2_with_the_reason() {
    let world = World::new();
    for (args, expected) in [
        (&["--no-such-flag"][..], "--no-such-flag"),
        (&["reccord"], "record"),
        (
            &["record", "-d", "10"],
            "missing unit; use 10ms, 10s, 10m, 10h or 10d",
        ),
        (
            &["record", "-q", "./prog", "-x", "y"],
            "give a command after --: ferretto record -q -- ./prog -x y",
        ),
        (&["record", "--perf", "999"], "--perf=999"),
        (
            &["record", "--perf=many"],
            "expected samples a second, from 1 to 10000",
        ),
        (
            &["record", "--perf", "make"],
            "ferretto record --perf -- make",
        ),
        (&["record", "-d", "soon"], "expected numbers with units"),
        (&[], "Usage: ferretto"),
    ] {
        world.run("ferretto", args).returned(2).complained(expected);
    }
    assert!(
        world.names().is_empty(),
        "nothing is written: {:?}",
        world.names()
    );
}

#[test]
fn help_and_version_go_to_standard_output() {
    let world = World::new();
    let outcome = world.run("ferretto", &["--help"]).returned(0);
    for expected in ["record", "summary", "text", "Exit codes:", "traced_probes"] {
        assert!(
            outcome.text().contains(expected),
            "no {expected} in {}",
            outcome.text()
        );
    }
    let outcome = world.run("ferretto", &["--version"]).returned(0);
    assert!(outcome.text().starts_with("ferretto "));
    for command in ["record", "summary", "text"] {
        let outcome = world.run("ferretto", &[command, "--help"]).returned(0);
        let again = world.run("ferretto", &["help", command]).returned(0);
        assert_eq!(outcome.text(), again.text());
    }
    let outcome = world.run("ferretto", &["help"]).returned(0);
    for program in ["traced_perf", "trigger_perfetto", "tracebox"] {
        assert!(outcome.text().contains(program), "{}", outcome.text());
    }
    let program = |args: &[&str]| {
        let outcome = world.run("ferretto", args);
        (outcome.code, outcome.stdout, outcome.stderr)
    };
    for name in ["traced", "traced_probes", "traced_perf", "perfetto"] {
        assert_eq!(program(&["help", name]), program(&[name, "--help"]));
    }
}

#[test]
fn the_output_of_record_is_the_default_input_of_commands() {
    let world = World::new();
    for command in [
        "summary",
        "text",
        "flamegraph",
        "folded",
        "pprof",
        "symbolize",
    ] {
        world
            .run("ferretto", &[command])
            .returned(1)
            .complained("cannot open trace.pftrace");
    }
    world
        .run("ferretto", &["open", "--no-browser"])
        .returned(1)
        .complained("cannot open trace.pftrace");
    world.write("trace.pftrace", trace());
    let outcome = world.run("ferretto", &["summary"]).returned(0);
    assert!(outcome.text().starts_with("trace.pftrace: "));
    let outcome = world.run("ferretto", &["text"]).returned(0);
    assert!(outcome.text().contains("next_comm: \"cargo\""));
}

#[test]
fn install_links_makes_commands_of_the_programs() {
    let world = World::new();
    let outcome = world
        .run("ferretto", &["install-links", "bin/here"])
        .returned(0)
        .complained("perfetto, ")
        .complained("is not in $PATH");
    assert!(outcome.stdout.is_empty());
    let names = [
        "perfetto",
        "tracebox",
        "traced",
        "traced_perf",
        "traced_probes",
        "trigger_perfetto",
    ];
    let binary = std::fs::canonicalize(crate::world::FERRETTO).unwrap();
    for name in names {
        let link = world.path("bin/here").join(name);
        assert_eq!(std::fs::canonicalize(link).unwrap(), binary);
    }
    let perfetto = std::process::Command::new(world.path("bin/here/perfetto"));
    let mut perfetto = world.at_home(perfetto);
    let perfetto = perfetto.arg("--version").spawn().unwrap();
    crate::world::Running::new(perfetto).finish().returned(0);
    // A second time, and with the folder in $PATH.
    let mut command = world.command("ferretto", &["install-links", "bin/here"]);
    let outcome = command
        .env("PATH", world.path("bin/here"))
        .output()
        .unwrap();
    assert!(outcome.status.success());
    assert!(!String::from_utf8(outcome.stderr).unwrap().contains("$PATH"));
    // A file that is not a link belongs to another program.
    std::fs::remove_file(world.path("bin/here/traced")).unwrap();
    world.write("bin/here/traced", "another program");
    world
        .run("ferretto", &["install-links", "bin/here"])
        .returned(1)
        .complained("has other programs of these names: traced;");
    assert_eq!(world.read("bin/here/traced"), b"another program");
}

/// Errors are readable for any config.
#[test]
fn errors_of_configs_do_not_repeat_long_texts() {
    let world = World::new();
    let long = "a".repeat(1 << 20);
    let words = "many words ".repeat(100_000);
    for config in [
        format!("{long}: 1"),
        format!("duration_ms: {long}"),
        format!("duration_ms: \"{words}\""),
        format!("duration_ms: {}", "9".repeat(1 << 20)),
        format!("data_sources {{ config {{ {long} {{}} }} }}"),
        format!("buffers {{ fill_policy: {long} }}"),
        format!("buffers {{ fill_policy: \"{words}"),
        format!("[{long}]: 1"),
        format!("# {words}\n{}", "nope: 1 ".repeat(10_000)),
    ] {
        world.write("c", &config);
        for (program, args, name) in [
            ("ferretto", &["record", "-c", "c"][..], "c:"),
            ("perfetto", &["--txt", "-c", "c", "-o", "out"], "c:"),
        ] {
            let outcome = world.run(program, args).returned(1).complained(name);
            assert!(outcome.stderr.len() < 20_000, "{}", outcome.stderr.len());
        }
    }
    assert_eq!(world.names(), ["c"]);
}
