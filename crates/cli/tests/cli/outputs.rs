//! Tests that the output of commands never overwrites their input, and never controls the terminal.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};

use ferretto_wire::encode;

use crate::symbolize::sample;
use crate::world::{Running, World, until};

#[test]
fn no_command_writes_over_its_input() {
    let world = World::new();
    let trace = sample("/nowhere/program", &[7; 20], 0x40_0010);
    world.write("m.pf", &trace);
    fs::hard_link(world.path("m.pf"), world.path("hard")).unwrap();
    symlink("m.pf", world.path("soft")).unwrap();
    world.write("other", &trace);
    for output in ["m.pf", "./m.pf", "hard", "soft"] {
        for command in [
            &["flamegraph", "m.pf"][..],
            &["flamegraph", "other", "--before", "m.pf"],
            &["folded", "m.pf"],
            &["pprof", "m.pf"],
            &["symbolize", "m.pf"],
            &["symbolize", "m.pf", "--only-names"],
        ] {
            let outcome = world.run("ferretto", &[command, &["-o", output]].concat());
            outcome
                .returned(1)
                .complained("is the same file as the input m.pf");
            assert_eq!(world.read("m.pf"), trace, "{command:?} -o {output}");
        }
    }
    // The default name may be that of the trace.
    world.write("trace.svg", &trace);
    let outcome = world.run("ferretto", &["flamegraph", "trace.svg"]);
    outcome.returned(1).complained("the same file");
    assert_eq!(world.read("trace.svg"), trace);
    // Another file is replaced completely.
    world.write("out", vec![b'x'; 100_000]);
    let args = ["folded", "m.pf", "-o", "out"];
    world.run("ferretto", &args).returned(0);
    assert!(world.read("out").len() < 1000);
}

#[test]
fn standard_output_may_not_be_the_input_either() {
    let world = World::new();
    let trace = sample("/nowhere/program", &[7; 20], 0x40_0010);
    let path = world.write("t", &trace);
    for command in ["folded", "text"] {
        let append = fs::OpenOptions::new().append(true).open(&path).unwrap();
        let mut command = world.command("ferretto", &[command, "t"]);
        let child = command.stdout(Stdio::from(append)).spawn().unwrap();
        let outcome = crate::world::Running::new(child).finish();
        outcome
            .returned(1)
            .complained("standard output is the same file as the input t");
        assert_eq!(world.read("t"), trace);
    }
}

#[test]
fn an_incomplete_file_does_not_replace_another() {
    let world = World::new();
    let trace = sample("/nowhere/program", &[7; 20], 0x40_0010);
    // The decompressed file is damaged at its start, or after its first packets.
    world.write("cut.json", r#"{"traceEvents":[{"ph":"X","#);
    world.write("out", "old");
    let outcome = world.run("ferretto", &["json", "cut.json", "-o", "out"]);
    let outcome = outcome.returned(1).complained("cannot read cut.json: ");
    assert!(!outcome.stderr.contains("ERR"), "{}", outcome.stderr);
    assert_eq!(world.read("out"), b"old");
    // A link is kept, and the file has the usual permissions of the user's files.
    world.write("m.pf", &trace);
    symlink("out", world.path("link")).unwrap();
    let args = ["folded", "m.pf", "-o", "link"];
    world.run("ferretto", &args).returned(0);
    assert_ne!(world.read("out"), b"old");
    assert!(world.path("link").is_symlink());
    let mode = |name: &str| world.path(name).metadata().unwrap().permissions().mode();
    assert_eq!(mode("out"), mode("m.pf"));
    assert_eq!(world.names(), ["cut.json", "link", "m.pf", "out"]);
}

#[test]
fn a_signal_removes_an_incomplete_file() {
    use rustix::process::Signal;

    let packet = sample("/nowhere/program", &[7; 20], 0x40_0010);
    let signals = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];
    for (signal, expected) in signals.into_iter().zip([130, 143, 129, 131]) {
        let world = World::new();
        world.write("t", packet.repeat(5000));
        let is_begun = || {
            world
                .names()
                .iter()
                .any(|name| name.starts_with(".ferretto-"))
        };
        let mut running = world.start("ferretto", &["json", "t", "-o", "out"]);
        until("the file is created", || {
            (is_begun() || running.child().try_wait().unwrap().is_some()).then_some(())
        });
        running.signal(signal);
        let code = running.finish().code;
        // The command may have ended before the signal.
        let rest: &[&str] = match code {
            0 => &["out", "t"],
            _ => &["t"],
        };
        assert!(code == 0 || code == expected, "{code}");
        let names = world.names();
        let left: Vec<_> = names.iter().filter(|name| *name != "core").collect();
        assert_eq!(left, rest);
    }
}

#[test]
fn a_file_that_reaches_the_size_limit_is_reported() {
    let world = World::new();
    let packet = sample("/nowhere/program", &[7; 20], 0x40_0010);
    world.write("t", packet.repeat(5000));
    let program = world.command::<&str>("ferretto", &[]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -f 8; exec \"$0\" cut t -o out --from 0s"]);
    shell.arg(program.get_program());
    Running::new(world.at_home(shell).spawn().unwrap())
        .finish()
        .returned(1)
        .complained("cannot write out: File too large");
    assert_eq!(world.names(), ["t"]);
}

#[test]
fn a_signal_that_is_ignored_does_not_end_a_command() {
    let world = World::new();
    let packet = sample("/nowhere/program", &[7; 20], 0x40_0010);
    world.write("t", packet.repeat(5000));
    let program = world.command::<&str>("ferretto", &[]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' HUP; exec \"$0\" json t -o out"]);
    shell.arg(program.get_program());
    let mut running = Running::new(world.at_home(shell).spawn().unwrap());
    until("the file is begun", || {
        let is_begun = world.names().iter().any(|name| name != "t");
        (is_begun || running.child().try_wait().unwrap().is_some()).then_some(())
    });
    running.signal(rustix::process::Signal::HUP);
    running.finish().returned(0);
    assert_eq!(world.names(), ["out", "t"]);
}

#[test]
fn names_cannot_control_the_terminal() {
    let world = World::new();
    let second = 1_000_000_000u64;
    let trace = encode(|trace| {
        trace.nested(1, |packet| {
            packet.nested(2, |tree| {
                tree.nested(1, |process| {
                    process.varint(1, 42);
                    process.string(3, "evil\nno data lost\x1b[2J\u{9b}31m");
                });
            });
        });
        trace.nested(1, |packet| {
            packet.nested(1, |bundle| {
                for (at, pid) in [(10, 42), (12, 7), (13, 0)] {
                    bundle.nested(2, |event| {
                        event.varint(1, at * second);
                        event.nested(4, |switch| {
                            switch.string(5, "th\rread\x07\n");
                            switch.varint(6, pid);
                        });
                    });
                }
            });
        });
    });
    let callstacks = sample("/no\nwhere/pro\x1b]0;gram\x07", &[7; 20], 0x40_0010);
    world.write("t", [trace, callstacks].concat());
    for command in ["summary", "text", "folded", "symbolize"] {
        let outcome = world.run("ferretto", &[command, "t"]).returned(0);
        let text = format!("{}{}", outcome.text(), outcome.stderr);
        let controls = text.chars().any(|c| c.is_control() && c != '\n');
        assert!(!controls, "{command}: {text:?}");
        let alone = |line: &str| line.starts_with("no data lost") || line.starts_with("where/pro");
        assert!(!text.lines().any(alone), "{command}: {text}");
    }
}
