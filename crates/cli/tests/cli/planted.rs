//! Outputs in folders that other users may write to, and who may read outputs.

use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, lchown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::symbolize::sample;
use crate::world::{Running, World};

/// Another user.
const NOBODY: u32 = 65_534;

const CONFIG: &str = "buffers { size_kb: 64 } duration_ms: 50";

/// The commands that write a file, except `record`. Each ends with the option for its output.
const COMMANDS: [&[&str]; 12] = [
    &["ferretto", "flamegraph", "t", "-o"],
    &["ferretto", "folded", "t", "-o"],
    &["ferretto", "pprof", "t", "-o"],
    &["ferretto", "symbolize", "t", "-o"],
    &["ferretto", "cut", "t", "--from", "0s", "-o"],
    &["ferretto", "merge", "m", "n", "-o"],
    &["ferretto", "json", "t", "-o"],
    &["ferretto", "view", "t", "-o"],
    &["ferretto", "import", "stacks", "-o"],
    &["heapprofd", "--write-library"],
    &["perfetto", "--txt", "-c", "config", "-o"],
    &["tracebox", "perfetto", "--txt", "-c", "config", "-o"],
];

/// Returns a folder with the inputs of all commands, and `shared`, which other users may write to.
/// Prints that the test is skipped and returns `None` without the permissions of root.
fn world(shared: u32) -> Option<World> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can create files of other users");
        return None;
    }
    let world = World::new();
    set_mode(&world.path(""), 0o755);
    world.write("t", sample("/nowhere/program", &[7; 20], 0x40_0010));
    world.write("stacks", "main;f 3\n");
    world.write("config", CONFIG);
    world.write("victim", "untouched");
    fs::create_dir(world.path("shared")).unwrap();
    set_mode(&world.path("shared"), shared);
    Some(world)
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn give_to_nobody(path: &Path) {
    lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
}

/// Runs each command with an output in the shared folder, which `plant` prepares.
fn for_each(world: &World, plant: impl Fn(&Path), check: impl Fn(&[&str], crate::world::Finished)) {
    let _service = world.start_daemon("traced", &[], "TRACED_NOTIFY_FD");
    for name in ["m", "n"] {
        let args = ["--txt", "-c", "config", "-o", name];
        world.run("perfetto", &args).returned(0);
    }
    let output = world.path("shared/out");
    for command in COMMANDS {
        let _ = fs::remove_file(&output);
        plant(&output);
        let args = [&command[1..], &["shared/out"]].concat();
        check(command, world.run(command[0], &args));
        assert_eq!(world.read("victim"), b"untouched", "{command:?}");
    }
    let left: Vec<_> = fs::read_dir(world.path("shared")).unwrap().collect();
    assert!(left.len() <= 1, "{left:?}");
}

#[test]
fn no_command_follows_a_link_of_another_user() {
    for mode in [0o1777, 0o777, 0o775] {
        let Some(world) = world(mode) else { return };
        for target in ["victim", "missing"] {
            let plant = |output: &Path| {
                symlink(world.path(target), output).unwrap();
                give_to_nobody(output);
            };
            for_each(&world, plant, |command, outcome| {
                assert_eq!(outcome.code, 1, "{command:?}: {outcome:?}");
                outcome.complained("it is a symbolic link of another user");
                assert!(!world.path("missing").exists(), "{command:?}");
            });
        }
    }
}

#[test]
fn no_command_writes_into_a_pipe_of_another_user() {
    let Some(world) = world(0o1777) else { return };
    let plant = |output: &Path| {
        let made = Command::new("mkfifo").arg(output).status().unwrap();
        assert!(made.success());
        give_to_nobody(output);
    };
    for_each(&world, plant, |command, outcome| {
        assert_eq!(outcome.code, 1, "{command:?}: {outcome:?}");
        outcome.complained("it is a pipe of another user");
    });
}

#[test]
fn a_file_of_another_user_is_replaced() {
    let Some(world) = world(0o1777) else { return };
    let plant = |output: &Path| {
        fs::write(output, "theirs").unwrap();
        set_mode(output, 0o666);
        give_to_nobody(output);
        // Stays another name of their file.
        let _ = fs::remove_file(world.path("kept"));
        fs::hard_link(output, world.path("kept")).unwrap();
    };
    for_each(&world, plant, |command, outcome| {
        assert_eq!(outcome.code, 0, "{command:?}: {outcome:?}");
        assert_eq!(world.read("kept"), b"theirs", "{command:?}");
        let made = world.path("shared/out").metadata().unwrap();
        assert_eq!((made.uid(), made.mode() & 0o022), (0, 0), "{command:?}");
    });
}

#[test]
fn another_name_of_a_private_file_is_replaced() {
    let Some(world) = world(0o1777) else { return };
    let plant = |output: &Path| fs::hard_link(world.path("victim"), output).unwrap();
    for_each(&world, plant, |command, outcome| {
        assert_eq!(outcome.code, 0, "{command:?}: {outcome:?}");
    });
}

#[test]
fn a_link_that_is_planted_during_a_command_is_not_followed() {
    // Without the sticky bit, the other user can go on after the first output.
    let Some(world) = world(0o777) else { return };
    let mut attack = Command::new("sh");
    let script = "while :; do ln -sfn ../victim out; rm -f out; : >out; rm -f out; done";
    attack.args(["-c", script]).uid(NOBODY).gid(NOBODY);
    let mut attack = world.at_home(attack);
    let running = attack.current_dir(world.path("shared")).spawn();
    let running = Running::new(running.unwrap());
    set_mode(&world.path("victim"), 0o666);
    for command in COMMANDS {
        if command.contains(&"perfetto") {
            continue;
        }
        for _ in 0..3 {
            let args = [&command[1..], &["shared/out"]].concat();
            world.run(command[0], &args);
            assert_eq!(world.read("victim"), b"untouched", "{command:?}");
        }
    }
    drop(running);
}

#[test]
fn outputs_of_a_private_trace_are_private() {
    let Some(world) = world(0o755) else { return };
    for name in ["t", "stacks"] {
        set_mode(&world.path(name), 0o600);
    }
    for_each(
        &world,
        |_| (),
        |command, outcome| {
            assert_eq!(outcome.code, 0, "{command:?}: {outcome:?}");
            let mode = world.path("shared/out").metadata().unwrap().mode() & 0o777;
            // The library contains no data.
            let expected = if command[0] == "heapprofd" {
                0o644
            } else {
                0o600
            };
            assert_eq!(mode, expected, "{command:?}");
        },
    );
    // An earlier file was private.
    set_mode(&world.path("t"), 0o644);
    let mut options = OpenOptions::new();
    let old = options.write(true).create_new(true).mode(0o600);
    old.open(world.path("old")).unwrap();
    let args = ["json", "t", "-o", "old"];
    world.run("ferretto", &args).returned(0);
    let mode = |name: &str| world.path(name).metadata().unwrap().mode() & 0o777;
    assert_eq!(mode("old"), 0o600);
    // The group of the trace is not that of the output.
    set_mode(&world.path("t"), 0o640);
    let args = ["json", "t", "-o", "same"];
    world.run("ferretto", &args).returned(0);
    lchown(world.path("t"), None, Some(NOBODY)).unwrap();
    let args = ["json", "t", "-o", "other"];
    world.run("ferretto", &args).returned(0);
    assert_eq!((mode("same"), mode("other")), (0o640, 0o600));
}

#[test]
fn a_library_that_cannot_be_written_completely_is_not_kept() {
    let world = World::new();
    let program = world.command::<&str>("ferretto", &[]);
    for old in [None, Some("old")] {
        old.map(|old| world.write("library", old));
        let mut shell = Command::new("sh");
        shell.args([
            "-c",
            "ulimit -f 8; exec \"$0\" heapprofd --write-library library",
        ]);
        shell.arg(program.get_program());
        Running::new(world.at_home(shell).spawn().unwrap())
            .finish()
            .returned(1)
            .complained("cannot write library: File too large");
        let names: &[&str] = if old.is_some() { &["library"] } else { &[] };
        assert_eq!(world.names(), names);
    }
    assert_eq!(world.read("library"), b"old");
}

#[test]
fn a_library_is_not_left_incomplete_on_a_full_disk() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can mount a small disk");
        return;
    }
    let world = World::new();
    fs::create_dir(world.path("disk")).unwrap();
    let program = world.command::<&str>("ferretto", &[]);
    let mut shell = Command::new("unshare");
    shell.args([
        "--mount",
        "sh",
        "-c",
        "mount -t tmpfs -o size=16k none disk || exit 77
        \"$0\" heapprofd --write-library disk/library; code=$?
        ls -A disk > names; exit $code",
    ]);
    shell.arg(program.get_program());
    let outcome = Running::new(world.at_home(shell).spawn().unwrap()).finish();
    if outcome.code == 77 {
        println!("skipped: no disk can be mounted here");
        return;
    }
    outcome
        .returned(1)
        .complained("cannot write disk/library: No space left on device");
    assert_eq!(world.read("names"), b"");
}
