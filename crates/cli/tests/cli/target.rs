//! Tests of the output of a recording: exclusive files, existing files, pipes, and files of other
//! users.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::process::Command;

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::process::Signal;

use crate::daemons::traced;
use crate::users::as_nobody;
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

/// The same config without write_into_file: the trace is read back at the end.
fn buffered() -> String {
    let config = COUNTERS.replace("write_into_file: true", "");
    config.replace("file_write_period_ms: 100", "")
}

fn world() -> World {
    let world = World::new();
    world.write("c", COUNTERS);
    world
}

const SHORT: [&str; 5] = ["record", "-c", "c", "-d", "100ms"];

fn short(more: &[&'static str]) -> Vec<&'static str> {
    [&SHORT[..], more].concat()
}

fn is_trace(world: &World, name: &str) {
    let summary = world.summary(name);
    assert!(summary.losses_known(), "{name}: {summary:#?}");
}

#[test]
fn two_recordings_do_not_share_a_file() {
    let world = world();
    let first = world.start("ferretto", &["record", "-c", "c", "-d", "0", "-o", "t.pf"]);
    until("something is recorded", || has_content(&world.path("t.pf")));
    for name in ["t.pf", "./t.pf"] {
        world
            .run(
                "ferretto",
                &["record", "-c", "c", "-d", "100ms", "-o", name],
            )
            .returned(1)
            .complained("another recording is being written to")
            .complained("choose another file, for example with -o ")
            .complained("t-2.pf");
    }
    first.signal(Signal::INT);
    first.finish().returned(0).complained("no data lost");
    is_trace(&world, "t.pf");
    assert_eq!(world.names(), ["c", "t.pf"]);
    // After the recording, the file can be used.
    world.run("ferretto", &short(&["-o", "t.pf"])).returned(0);
}

#[test]
fn a_file_is_locked_before_the_first_packet() {
    let world = world();
    // Like the file of a recording that has not written any data.
    let part = File::create(world.path("t.part")).unwrap();
    flock(&part, FlockOperation::LockExclusive).unwrap();
    world
        .run("ferretto", &short(&["-o", "t"]))
        .returned(1)
        .complained(
            "another recording is being written to t; choose another file, for example with -o t-2",
        );
    drop(part);
    // Like the file of such a recording that was killed.
    world.run("ferretto", &short(&["-o", "t"])).returned(0);
    is_trace(&world, "t");
    assert_eq!(world.names(), ["c", "t"]);
}

#[test]
fn perfetto_does_not_write_into_a_recording_either() {
    let world = world();
    let _service = traced(&world);
    let there = world.write("t", "somebody's");
    let file = File::open(there).unwrap();
    flock(&file, FlockOperation::LockExclusive).unwrap();
    let args = ["--txt", "-c", "c", "-o", "t"];
    world
        .run("perfetto", &args)
        .returned(1)
        .complained("Failed to open t. Another recording is being written to it.");
    assert_eq!(world.read("t"), b"somebody's");
    world
        .run("perfetto", &["--txt", "-c", "c", "-o", "c"])
        .returned(1)
        .complained("the same file");
    assert_eq!(world.read("c"), COUNTERS.as_bytes());
}

#[test]
fn a_recording_that_cannot_start_does_not_change_the_file() {
    let world = world();
    world.write("trace.pftrace", "an old trace");
    world.write(
        "bad",
        "buffers { size_kb: 4 } data_sources { config { target_buffer: 7 } }",
    );
    let unchanged = |args: &[&str], expected: &str| {
        let outcome = world.run("ferretto", args).returned(1);
        outcome.complained(expected);
        assert_eq!(world.read("trace.pftrace"), b"an old trace", "{args:?}");
        assert_eq!(world.names(), ["bad", "c", "trace.pftrace"], "{args:?}");
    };
    unchanged(&["record", "--system"], "no tracing service runs");
    unchanged(&["record", "-c", "bad"], "out of bounds target_buffer");
    unchanged(&["record", "-c", "c", "-o", "c"], "the same file");
    world
        .run("ferretto", &["record", "--", "./c"])
        .returned(126);
    assert_eq!(world.read("trace.pftrace"), b"an old trace");
}

#[test]
fn the_earlier_file_is_kept() {
    let world = world();
    world.write("t", "an old trace");
    world
        .run("ferretto", &short(&["-o", "t"]))
        .returned(0)
        .complained("the earlier file was renamed to t.old");
    is_trace(&world, "t");
    assert_eq!(world.read("t.old"), b"an old trace");
    // Only one earlier file is kept.
    let second = world.read("t");
    world.run("ferretto", &short(&["-o", "t"])).returned(0);
    assert_eq!(world.read("t.old"), second);
    assert_eq!(world.names(), ["c", "t", "t.old"]);
    // A link of the same user is followed.
    fs::create_dir(world.path("d")).unwrap();
    symlink("d/target", world.path("link")).unwrap();
    for _ in 0..2 {
        world.run("ferretto", &short(&["-o", "link"])).returned(0);
    }
    is_trace(&world, "d/target");
    is_trace(&world, "d/target.old");
    assert!(world.path("link").is_symlink());
}

#[test]
fn a_command_cannot_print_into_the_trace() {
    let world = world();
    for output in ["-", "/dev/stdout"] {
        let args = ["record", "-c", "c", "-o", output, "--", "sh", "-c"];
        let script = "echo noise; sleep 0.2";
        let outcome = world
            .run("ferretto", &[&args[..], &[script]].concat())
            .returned(0)
            .complained("noise");
        world.write("out", &outcome.stdout);
        is_trace(&world, "out");
        fs::remove_file(world.path("out")).unwrap();
    }
    assert_eq!(world.names(), ["c"]);
}

fn fifo(world: &World) {
    let made = Command::new("mkfifo").arg(world.path("fifo")).status();
    assert!(made.unwrap().success());
}

#[test]
fn pipes_are_written_and_not_replaced() {
    let world = world();
    world.write("b", buffered());
    fifo(&world);
    for config in ["c", "b"] {
        let args = ["record", "-c", config, "-d", "300ms", "-o", "fifo"];
        let mut recording = world.start("ferretto", &args);
        recording.wait_for_complaint("waiting for a reader of fifo");
        let mut reader = File::open(world.path("fifo")).unwrap();
        let mut trace = Vec::new();
        reader.read_to_end(&mut trace).unwrap();
        recording.finish().returned(0);
        world.write("out", trace);
        is_trace(&world, "out");
    }
    assert!(world.path("fifo").metadata().unwrap().file_type().is_fifo());
    assert_eq!(world.names(), ["b", "c", "fifo", "out"]);
    for config in ["c", "b"] {
        let args = ["record", "-c", config, "-d", "100ms", "-o", "/dev/null"];
        world.run("ferretto", &args).returned(0);
    }
}

/// Signals that arrive together count once, so they are sent until they have their effect.
fn signal_until_it_ends(recording: &mut Running, signal: Signal) {
    until("it ends", || {
        let ended = recording.child().try_wait().unwrap().is_some();
        if !ended {
            recording.signal(signal);
        }
        ended.then_some(())
    });
}

#[test]
fn signals_end_a_recording_that_waits_for_a_reader() {
    let world = world();
    fifo(&world);
    for signal in [Signal::INT, Signal::TERM] {
        let args = ["record", "-c", "c", "-d", "0", "-o", "fifo"];
        let mut recording = world.start("ferretto", &args);
        recording.wait_for_complaint("waiting for a reader of fifo");
        recording.signal(signal);
        recording.finish().returned(130);
    }
    assert_eq!(world.names(), ["c", "fifo"]);
}

#[test]
fn signals_end_a_recording_whose_reader_does_not_read() {
    let world = world();
    world.write("b", buffered());
    fifo(&world);
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    for (config, signal) in [("c", Signal::INT), ("b", Signal::TERM)] {
        let reader = rustix::fs::open(world.path("fifo"), flags, Mode::empty()).unwrap();
        rustix::pipe::fcntl_setpipe_size(&reader, 4096).unwrap();
        let args = ["record", "-c", config, "-d", "100ms", "-o", "fifo"];
        let mut recording = world.start("ferretto", &args);
        // The first bytes are written.
        let mut ready = [rustix::event::PollFd::new(
            &reader,
            rustix::event::PollFlags::IN,
        )];
        rustix::event::poll(&mut ready, None).unwrap();
        signal_until_it_ends(&mut recording, signal);
        // The progress of the recording is unknown.
        let outcome = recording.finish();
        assert!(
            [0, 130].contains(&outcome.code) || outcome.stderr.contains("fifo"),
            "{outcome:?}"
        );
        drop(reader);
    }
    // Standard output behaves in the same way.
    let args = ["record", "-c", "c", "-d", "100ms", "-o", "-"];
    let (reader, writer) = std::io::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&reader, 4096).unwrap();
    let mut command = world.command("ferretto", &args);
    let mut recording = Running::new(command.stdout(writer).spawn().unwrap());
    drop(command);
    let mut ready = [rustix::event::PollFd::new(
        &reader,
        rustix::event::PollFlags::IN,
    )];
    rustix::event::poll(&mut ready, None).unwrap();
    signal_until_it_ends(&mut recording, Signal::INT);
    assert_eq!(world.names(), ["b", "c", "fifo"]);
}

/// Another user.
const NOBODY: u32 = 65_534;

#[test]
fn links_and_pipes_of_other_users_are_not_written() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can create files of other users");
        return;
    }
    let world = world();
    fs::create_dir(world.path("tmp")).unwrap();
    fs::set_permissions(world.path("tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
    world.write("victim", "untouched");
    let theirs = |name: &str| {
        std::os::unix::fs::lchown(world.path(name), Some(NOBODY), Some(NOBODY)).unwrap();
    };
    symlink(world.path("victim"), world.path("tmp/link")).unwrap();
    theirs("tmp/link");
    world
        .run("ferretto", &short(&["-o", "tmp/link"]))
        .returned(1)
        .complained("it is a symbolic link of another user");
    assert_eq!(world.read("victim"), b"untouched");
    // Also as the temporary file.
    symlink(world.path("victim"), world.path("tmp/a.part")).unwrap();
    theirs("tmp/a.part");
    world.write("tmp/b.part", "theirs");
    theirs("tmp/b.part");
    fs::hard_link(world.path("victim"), world.path("tmp/c.part")).unwrap();
    for output in ["tmp/a", "tmp/b", "tmp/c"] {
        let args = [&SHORT[..], &["-o", output]].concat();
        let outcome = world.run("ferretto", &args).returned(1);
        outcome.complained("exists and is not from a recording of yours");
        assert!(!world.path(output).exists());
    }
    assert_eq!(world.read("victim"), b"untouched");
    fifo(&world);
    fs::rename(world.path("fifo"), world.path("tmp/fifo")).unwrap();
    theirs("tmp/fifo");
    world
        .run("ferretto", &short(&["-o", "tmp/fifo"]))
        .returned(1)
        .complained("it is a pipe of another user");
    // A file that all users can read is replaced by one that only its owner can read.
    let open = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o666)
        .open(world.path("tmp/file"))
        .unwrap();
    open.set_permissions(fs::Permissions::from_mode(0o666))
        .unwrap();
    theirs("tmp/file");
    world
        .run("ferretto", &short(&["-o", "tmp/file"]))
        .returned(0);
    is_trace(&world, "tmp/file");
    let made = world.path("tmp/file").metadata().unwrap();
    assert_eq!((made.mode() & 0o777, made.uid()), (0o600, 0));
    assert_eq!(
        open.metadata().unwrap().len(),
        0,
        "nothing went into theirs"
    );
}

#[test]
fn a_file_in_a_folder_of_others_is_written_in_place() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can be two users");
        return;
    }
    let world = world();
    fs::create_dir(world.path("d")).unwrap();
    fs::set_permissions(world.path(""), fs::Permissions::from_mode(0o777)).unwrap();
    world.write("d/t", "an old trace");
    fs::set_permissions(world.path("d/t"), fs::Permissions::from_mode(0o666)).unwrap();
    let command = world.command("ferretto", &short(&["-o", "d/t"]));
    match as_nobody(command) {
        Some(outcome) => drop(outcome.returned(0).complained("d/t: ")),
        None => return println!("skipped: others may not run the binary where it is"),
    }
    is_trace(&world, "d/t");
    assert_eq!(fs::read_dir(world.path("d")).unwrap().count(), 1);
}

#[test]
fn a_full_disk_is_reported_and_the_file_stays_valid() {
    let world = world();
    let disk = world.path("disk");
    fs::create_dir(&disk).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=128k", "ferretto-test"])
        .arg(&disk)
        .output();
    if !mounted.is_ok_and(|mounted| mounted.status.success()) {
        println!("skipped: nothing can be mounted here");
        return;
    }
    struct Mounted<'a>(&'a std::path::Path);
    impl Drop for Mounted<'_> {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg("-l").arg(self.0).status();
        }
    }
    let mounted = Mounted(&disk);
    // Fast enough to fill the disk within two seconds.
    let busy = COUNTERS.replace(
        "meminfo_period_ms: 100",
        "meminfo_period_ms: 10 vmstat_period_ms: 10",
    );
    world.write("c", busy);
    let args = ["record", "-c", "c", "-d", "0", "-o", "disk/t"];
    world
        .run("ferretto", &args)
        .returned(1)
        .complained("No space left on device")
        .complained("the data recorded so far is in disk/t");
    let summary = world.summary("disk/t");
    assert!(summary.packets > 0 && summary.bytes > 0);
    let kept = world.read("disk/t");
    // There is no space for another file, so this one is kept.
    let fill = fs::write(disk.join("fill"), vec![0; 1 << 20]);
    assert!(fill.is_err());
    world
        .run("ferretto", &args)
        .returned(1)
        .complained("No space left on device")
        .complained("nothing was recorded");
    assert_eq!(world.read("disk/t"), kept);
    drop(mounted);
}
