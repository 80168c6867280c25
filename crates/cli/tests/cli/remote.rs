//! Recording another machine by ssh, which a script replaces by running its arguments here.

use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;

use crate::world::{FERRETTO, World, until};

/// Returns a folder in which `ssh` runs its arguments in a shell of this machine.
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

/// Returns a folder in which `ssh` runs its arguments on machines with other names, and, if
/// `has_clocks`, with clocks that are ahead.
fn machines(has_clocks: bool) -> World {
    let world = world();
    let ahead = if has_clocks {
        "unshare --time --boottime $ahead --monotonic $ahead"
    } else {
        "env"
    };
    let script = format!(
        "#!/bin/sh\ncase $3 in\n*alpha) name=alpha; ahead=5000 ;;\n*beta) name=beta; ahead=86400 ;;\n\
         *) exit 255 ;;\nesac\nexport FERRETTO_MACHINE_ID=$name PERFETTO_MACHINE_NAME=$name\n\
         exec {ahead} sh -c \"$4\"\n"
    );
    world.write("bin/ssh", script);
    world
}

/// Returns true if clocks of a process can be set ahead.
fn has_time_namespaces() -> bool {
    let mut command = std::process::Command::new("unshare");
    command.args(["--time", "--boottime", "1", "true"]);
    let command = command.stderr(std::process::Stdio::null());
    let has = command.status().is_ok_and(|status| status.success());
    if !has {
        println!("skipped: other clocks: time namespaces are not available");
    }
    has
}

const ALL: [&str; 9] = [
    "record",
    "--host",
    "ssh://alpha",
    "--host",
    "ssh://me@beta",
    "--host-program",
    FERRETTO,
    "-o",
    "t.pftrace",
];

#[test]
fn several_machines_make_one_trace_with_their_clocks_related_and_their_losses_known() {
    let has_clocks = has_time_namespaces();
    let world = machines(has_clocks);
    let args = [
        &ALL[..],
        &[
            "--",
            "sh",
            "-c",
            "echo it runs on $PERFETTO_MACHINE_NAME; exit 7",
        ],
    ];
    let output = world.run("ferretto", &args.concat()).returned(7);
    output.complained("it runs on alpha");
    let summary = world.summary("t.pftrace");
    assert!(summary.losses_known(), "{:?}", summary.unknown);
    let mut machines: Vec<_> = summary.machines.iter().collect();
    machines.sort_by_key(|machine| machine.name.clone());
    let names: Vec<&str> = machines.iter().map(|machine| &machine.name[..]).collect();
    assert_eq!(names, ["alpha", "beta"]);
    for (machine, ahead) in machines.into_iter().zip([5_000, 86_400]) {
        assert!(machine.packets > 0, "{machine:?}");
        let clock = machine.clock.unwrap();
        let expected = i64::from(has_clocks) * ahead * 1_000_000_000;
        let wrong = (clock.offset_ns - expected).unsigned_abs();
        assert!(wrong <= clock.error_ns, "{machine:?}");
    }
    let command = summary.command.unwrap();
    assert!(command.command.contains("exit 7"), "{command:?}");
    // The traces and programs of the machines left no files.
    assert_eq!(world.names(), ["bin", "t.pftrace"]);
}

#[test]
fn an_unreachable_machine_does_not_affect_the_others() {
    let world = machines(false);
    let args = [&ALL[..], &["--host", "ssh://nowhere", "-d", "100ms"]].concat();
    let output = world.run("ferretto", &args).returned(1);
    let output = output.complained("ssh://nowhere: ssh cannot connect to ssh://nowhere");
    assert!(!output.stderr.contains("alpha:"), "{}", output.stderr);
    let summary = world.summary("t.pftrace");
    assert!(summary.losses_known(), "{:?}", summary.unknown);
    assert_eq!(summary.machines.len(), 2);
    let same = [&ALL[..], &["--host", "ssh://alpha"]].concat();
    let output = world.run("ferretto", &same).returned(1);
    output.complained("--host ssh://alpha is given twice");
    let pids = [&ALL[..], &["-p", "1"]].concat();
    let output = world.run("ferretto", &pids).returned(1);
    output.complained("-p selects processes of one machine");
}

#[test]
fn a_signal_ends_the_recording_of_all_machines() {
    let world = machines(false);
    let recording = world.start("ferretto", &[&ALL[..], &["-d", "0"]].concat());
    until("both record", || {
        let names = world.names();
        let folders = names.iter().filter(|name| name.starts_with("ferretto"));
        (folders.count() >= 2).then_some(())
    });
    recording.signal(Signal::INT);
    recording.finish().returned(0);
    let summary = world.summary("t.pftrace");
    assert!(summary.losses_known(), "{:?}", summary.unknown);
    assert_eq!(summary.machines.len(), 2);
}

const HOST: &str = "ssh://me@there:2222";

#[test]
fn a_command_on_another_machine_is_recorded_there_and_its_trace_is_copied_here() {
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
    let output = world.run("ferretto", &args).returned(7);
    // Its output is not part of the trace.
    output.complained("it's a b").complained("t.pftrace");
    assert_eq!(world.read("reached"), format!("{HOST}\n").as_bytes());
    let summary = world.summary("t.pftrace");
    assert!(summary.losses_known(), "{:?}", summary.unknown);
    let command = summary.command.unwrap();
    assert!(command.command.contains("exit 7"), "{command:?}");
}

#[test]
fn a_signal_here_ends_the_recording_of_the_other_machine() {
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
    // Its service has its own folder.
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
fn unreachable_machines_are_named() {
    let world = world();
    let record = |host: &str, more: &[&str]| {
        let args = [&["record", "-o", "t.pftrace", "--host", host], more].concat();
        world.run("ferretto", &args)
    };
    let output = record("ssh://nowhere", &[]).returned(1);
    output.complained("ssh cannot connect to ssh://nowhere");
    let output = record(HOST, &["--host-program", "/no/ferretto"]).returned(1);
    output.complained("has no /no/ferretto");
    for wrong in ["there", "ssh://", "ssh://-oProxyCommand=x", "ssh://a b"] {
        record(wrong, &[])
            .returned(1)
            .complained("--host takes ssh://");
    }
    record(HOST, &["--system"]).returned(2);
    assert!(!world.path("t.pftrace").exists());
}
