//! Recording another machine by ssh, in whose place a script runs the words here.

use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;

use crate::world::{FERRETTO, World, until};

/// A folder in which `ssh` runs its words in a shell of this machine.
fn world() -> World {
    let mut world = World::new();
    let bin = world.path("bin");
    std::fs::create_dir(&bin).unwrap();
    let script = "#!/bin/sh\n[ \"$1 $2\" = '-T --' ] || exit 2\ncase $3 in *nowhere*) exit 255 ;; esac\n\
        echo $3 > \"$TMPDIR/reached\"\nexec sh -c \"$4\"\n";
    let ssh = world.write("bin/ssh", script);
    std::fs::set_permissions(&ssh, PermissionsExt::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    world.set("PATH", &format!("{}:{path}", bin.display()));
    world
}

const HOST: &str = "ssh://me@there:2222";

#[test]
fn a_command_on_another_machine_is_recorded_there_and_its_trace_comes_here() {
    let world = world();
    let script = "echo it\\'s \"$1\"; exit 7";
    let args = [
        "record",
        "--host",
        HOST,
        "--host-program",
        FERRETTO,
        "-o",
        "t.pftrace",
        "--",
    ];
    let args = [&args[..], &["sh", "-c", script, "sh", "a b"]].concat();
    let said = world.run("ferretto", &args).returned(7);
    // What it prints is no part of the trace.
    said.complained("it's a b").complained("t.pftrace");
    assert_eq!(world.read("reached"), format!("{HOST}\n").as_bytes());
    let summary = world.summary("t.pftrace");
    assert!(summary.losses_known(), "{:?}", summary.unknown);
    let command = summary.command.unwrap();
    assert!(command.command.contains("exit 7"), "{command:?}");
}

#[test]
fn a_signal_here_has_the_other_machine_end_the_recording() {
    let world = world();
    let args = [
        "record",
        "--host",
        HOST,
        "--host-program",
        FERRETTO,
        "-d",
        "0",
        "-o",
        "t.pftrace",
    ];
    let recording = world.start("ferretto", &args);
    // Its service has a folder of its own.
    until("it records there", || {
        let names = world.names();
        names
            .iter()
            .any(|name| name.starts_with("ferretto"))
            .then_some(())
    });
    recording.signal(Signal::INT);
    recording.finish().returned(0);
    assert!(world.summary("t.pftrace").losses_known());
}

#[test]
fn machines_that_are_not_there_are_named() {
    let world = world();
    let record = |host: &str, more: &[&str]| {
        let args = [&["record", "-o", "t.pftrace", "--host", host], more].concat();
        world.run("ferretto", &args)
    };
    let said = record("ssh://nowhere", &[]).returned(1);
    said.complained("ssh did not get to ssh://nowhere");
    let said = record(HOST, &["--host-program", "/no/ferretto"]).returned(1);
    said.complained("has no /no/ferretto");
    for wrong in ["there", "ssh://", "ssh://-oProxyCommand=x", "ssh://a b"] {
        record(wrong, &[])
            .returned(1)
            .complained("--host takes ssh://");
    }
    record(HOST, &["--system"]).returned(2);
    assert!(!world.path("t.pftrace").exists());
}
