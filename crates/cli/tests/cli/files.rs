//! Looking at trace files, and the command line as such.

use ferretto_wire::encode;

use crate::world::World;

/// Two processes on one CPU for three seconds, and a lost flush.
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
fn summary_tells_what_happened_and_what_was_lost() {
    let world = World::new();
    world.write("t.pftrace", trace());
    let said = world.run("ferretto", &["summary", "t.pftrace"]).returned(0);
    let expected = "\
t.pftrace: 141 bytes, 4.00 s, 6 packets

events
  linux.ftrace                     3    64 bytes  sched_switch 3
  linux.process_stats              1    29 bytes  process_tree 1
  tracing service                  4    36 bytes  service_event 3, trace_stats 1

CPUs
  CPU 0               3 switches   75.0 % busy

top processes by CPU time
      2.00 s   50.0 %  pid 42       cargo build
      1.00 s   25.0 %  pid 7        kworker/0:1

lost  service: the last events may be missing (flush timed out)
      to avoid it: raise flush_timeout_ms (now 5000)
more may be lost
      the trace does not tell what the kernel's buffers lost
";
    assert_eq!(said.text(), expected, "{}", said.text());
    assert_eq!(said.stderr, "");
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
    let said = world.run("ferretto", &["text", "t.pftrace"]).returned(0);
    assert!(said.text().contains("99999: 7"), "{}", said.text());
}

#[test]
fn a_cut_trace_is_read_up_to_the_cut() {
    let world = World::new();
    let whole = trace();
    world.write("t.pftrace", &whole[..whole.len() - 1]);
    let said = world.run("ferretto", &["summary", "t.pftrace"]).returned(3);
    assert!(
        said.text().contains("the file ends inside a packet"),
        "{}",
        said.text()
    );
    assert!(
        said.text()
            .contains("no loss is recorded, but there may be one"),
        "{}",
        said.text()
    );
    world
        .run("ferretto", &["text", "t.pftrace"])
        .returned(3)
        .complained("ends inside a packet");
}

#[test]
fn what_is_no_trace_is_an_error() {
    let world = World::new();
    world.write("t.json", "{\"traceEvents\": []}");
    for command in ["summary", "text"] {
        let said = world.run("ferretto", &[command, "t.json"]).returned(1);
        assert_eq!(
            said.stderr,
            "ferretto: cannot read t.json: this is not a Perfetto trace; it looks like a JSON trace\n"
        );
        world
            .run("ferretto", &[command, "missing"])
            .returned(1)
            .complained("ferretto: cannot open missing: No such file or directory\n");
        world
            .run("ferretto", &[command, "."])
            .returned(1)
            .complained("it is a directory");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let world = World::new();
    let many = encode(|trace| (0..100_000).for_each(|n| trace.nested(1, |p| p.varint(8, n))));
    world.write("t.pftrace", many);
    let mut running = world.start("ferretto", &["text", "t.pftrace"]);
    drop(running.child().stdout.take());
    let said = running.finish().returned(0);
    assert_eq!(said.stderr, "");
}

#[test]
fn wrong_command_lines_return_2_and_say_why() {
    let world = World::new();
    for (args, expected) in [
        (&["--no-such-flag"][..], "--no-such-flag"),
        (&["reccord"], "record"),
        (&["record", "-d", "10"], "which unit? 10ms, 10s, 10m or 10h"),
        (&["record", "-d", "soon"], "expected a number and a unit"),
        (&["summary"], "<FILE>"),
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
    let said = world.run("ferretto", &["--help"]).returned(0);
    for expected in ["record", "summary", "text", "Exit codes:", "traced_probes"] {
        assert!(
            said.text().contains(expected),
            "no {expected} in {}",
            said.text()
        );
    }
    let said = world.run("ferretto", &["--version"]).returned(0);
    assert!(said.text().starts_with("ferretto "));
    for command in ["record", "summary", "text"] {
        world.run("ferretto", &[command, "--help"]).returned(0);
    }
}
