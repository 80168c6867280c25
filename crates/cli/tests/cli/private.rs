//! The sockets of a recording, and access to them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ferretto_client::{Address, Producer, ProducerOptions};
use ferretto_proto::DataSourceDescriptor;
use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;

use crate::target::COUNTERS;
use crate::users::as_nobody;
use crate::world::{Running, World, has_content, until};

fn world() -> World {
    let world = World::new();
    world.write("c", COUNTERS);
    world
}

/// Returns the folder of the sockets of the only recording.
fn folder(world: &World) -> PathBuf {
    until("there are sockets", || {
        let names = world.names();
        let name = names
            .iter()
            .find(|name| name.starts_with("ferretto-run-"))?;
        let folder = world.path(name).join("s");
        folder.join("consumer.sock").exists().then_some(folder)
    })
}

fn endless(world: &World) -> Running {
    let recording = world.start("ferretto", &["record", "-c", "c", "-d", "0", "-o", "t"]);
    until("something is recorded", || has_content(&world.path("t")));
    recording
}

#[test]
fn only_the_user_can_reach_the_sockets_of_a_recording() {
    let world = world();
    // Regardless of the umask.
    let script = "umask 0; exec \"$0\" record -c c -d 0 -o t";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", script, crate::world::FERRETTO]);
    let recording = Running::new(world.at_home(command).spawn().unwrap());
    until("something is recorded", || has_content(&world.path("t")));
    let folder = folder(&world);
    let outer = folder.parent().unwrap();
    for folder in [outer, &folder] {
        let mode = folder.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
    let query = || {
        let mut command = world.command("perfetto", &["--query"]);
        command.env("PERFETTO_CONSUMER_SOCK_NAME", folder.join("consumer.sock"));
        command
    };
    Running::new(query().spawn().unwrap()).finish().returned(0);
    if rustix::process::geteuid().is_root() {
        // The folder denies access even if its files permit other users.
        for path in [world.path(""), folder.clone(), folder.join("consumer.sock")] {
            fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
        }
        match as_nobody(query()) {
            Some(output) => drop(output.returned(1)),
            None => println!("skipped: others may not run the binary where it is"),
        }
    } else {
        println!("skipped: only root can be two users");
    }
    recording.signal(Signal::INT);
    recording.finish().returned(0);
}

#[test]
fn the_service_does_not_wait_for_the_lock_of_its_own_recording() {
    let world = world();
    let recording = endless(&world);
    let folder = folder(&world);
    let is_locked = |folder: &Path| {
        let lock = FlockOperation::NonBlockingLockExclusive;
        flock(fs::File::open(folder).unwrap(), lock).is_err()
    };
    // Services lock the folder of their socket when they start.
    assert!(!is_locked(&folder));
    assert!(is_locked(folder.parent().unwrap()));
    recording.signal(Signal::INT);
    recording.finish().returned(0);
}

#[test]
fn the_next_recording_removes_the_sockets_of_a_killed_one() {
    let world = world();
    let killed = endless(&world);
    let left = folder(&world).parent().unwrap().to_owned();
    killed.signal(Signal::KILL);
    killed.finish().returned(137);
    assert!(left.exists());
    // Folders that only look like those of recordings are kept.
    fs::create_dir(world.path("ferretto-run-mine")).unwrap();
    fs::create_dir(world.path("ferretto-run-0123456789")).unwrap();
    world.write("ferretto-run-0123456789/file", "");
    let second = world.start("ferretto", &["record", "-c", "c", "-d", "0", "-o", "u"]);
    until("something is recorded", || has_content(&world.path("u")));
    assert!(!left.exists());
    // Folders in use are kept, too.
    let args = ["record", "-c", "c", "-d", "100ms", "-o", "v"];
    world.run("ferretto", &args).returned(0);
    let is_run = |name: &&String| name.starts_with("ferretto-run-");
    assert_eq!(world.names().iter().filter(is_run).count(), 3);
    second.signal(Signal::INT);
    second.finish().returned(0).complained("no data lost");
    let names = world.names();
    let expected = [
        "c",
        "ferretto-run-0123456789",
        "ferretto-run-mine",
        "t",
        "u",
        "v",
    ];
    assert_eq!(names, expected);
}

#[test]
fn the_folder_of_temporary_files_may_have_a_long_path() {
    let world = world();
    let long = world.path(&"long".repeat(40));
    fs::create_dir(&long).unwrap();
    let args = [
        "record",
        "-c",
        "c",
        "-o",
        "t",
        "--",
        "sh",
        "-c",
        "sleep 0.2",
    ];
    let mut command = world.command("ferretto", &args);
    command
        .env("TMPDIR", &long)
        .env("XDG_RUNTIME_DIR", world.path(""));
    let output = Running::new(command.spawn().unwrap()).finish();
    output.returned(0).complained("no data lost");
    assert_eq!(fs::read_dir(long).unwrap().count(), 0);
}

/// A producer with a data source that is started in recordings but never replies.
struct Stuck {
    ends: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Stuck {
    fn connect(socket: PathBuf) -> Self {
        let options = ProducerOptions {
            name: "tester".into(),
            address: Some(Address::Path(socket)),
            ..Default::default()
        };
        let mut producer = Producer::new(options).unwrap();
        producer.register(DataSourceDescriptor {
            name: Some("stuck.\x1b[31msource".into()),
            will_notify_on_stop: Some(true),
            ..Default::default()
        });
        let ends = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&ends);
        let run = move || {
            while !until.load(Ordering::Relaxed) {
                producer.process(Instant::now());
                while producer.poll_event().is_some() {}
                producer.wait(Some(Duration::from_millis(20)));
            }
        };
        Self {
            ends,
            thread: Some(std::thread::spawn(run)),
        }
    }
}

impl Drop for Stuck {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[test]
fn a_data_source_that_never_replies_is_named_and_can_be_skipped() {
    let world = world();
    let stuck = r#"data_sources { config { name: "stuck.\x1b[31msource" } }
        flush_timeout_ms: 600000"#;
    world.write("c", format!("{COUNTERS}{stuck}"));
    // The recording ends by itself, and by a signal.
    for duration in ["1s", "0"] {
        let args = ["record", "-c", "c", "-d", duration, "-o", "t"];
        let mut recording = world.start("ferretto", &args);
        let folder = folder(&world);
        let stuck = Stuck::connect(folder.join("producer.sock"));
        until("something is recorded", || has_content(&world.path("t")));
        if duration == "0" {
            let query = || {
                let mut command = world.command("perfetto", &["--query-raw"]);
                command.env("PERFETTO_CONSUMER_SOCK_NAME", folder.join("consumer.sock"));
                Running::new(command.spawn().unwrap()).finish().returned(0)
            };
            until("the data source is registered", || {
                let state = query().stdout;
                let is_there = state.windows(6).any(|part| part == b"tester");
                is_there.then_some(())
            });
            recording.signal(Signal::INT);
        }
        recording.wait_for_complaint(
            "waiting for stuck.?[31msource of tester to hand over its last data; Ctrl-C ends at once",
        );
        recording.signal(Signal::INT);
        recording.finish().returned(130).complained("aborted");
        // The trace has the service's data with its statistics.
        assert_eq!(world.summary("t").unknown, [] as [&str; 0]);
        drop(stuck);
        fs::remove_file(world.path("t")).unwrap();
    }
}
