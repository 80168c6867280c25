//! The state of the kernel's tracing after recordings end in any way.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;

use crate::daemons::{traced, traced_probes};
use crate::world::{World, until};

const TRACEFS: &str = "/sys/kernel/tracing";

/// A tracefs instance of the test, removed at its end.
struct Instance(PathBuf);

impl Instance {
    /// Creates an instance. Prints that the test is skipped and returns `None` if that is not
    /// permitted.
    fn new(name: &str) -> Option<Self> {
        let name = format!("test-{name}-{}", std::process::id());
        let path = Path::new(TRACEFS).join("instances").join(name);
        match fs::create_dir(&path) {
            Ok(()) => Some(Self(path)),
            Err(error) => {
                println!("skipped: tracefs instances are not available: {error}");
                None
            }
        }
    }

    fn name(&self) -> &str {
        self.0.file_name().unwrap().to_str().unwrap()
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.0.join(file))
            .unwrap()
            .trim()
            .to_owned()
    }

    /// Returns the state that a recording changes.
    fn state(&self) -> Vec<String> {
        let files = ["tracing_on", "trace_clock", "buffer_size_kb", "set_event"];
        // An unused buffer is shown with its later size.
        let plain = |text: String| match text.split_once(" (expanded: ") {
            Some((_, size)) => size.trim_end_matches(')').to_owned(),
            None => text,
        };
        files.iter().map(|file| plain(self.read(file))).collect()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

fn config(world: &World, instance: &Instance) {
    let name = instance.name();
    let config = format!(
        r#"buffers {{ size_kb: 1024 }}
        data_sources {{ config {{ name: "linux.ftrace" ftrace_config {{
          instance_name: "{name}" buffer_size_kb: 256
          ftrace_events: "sched/sched_process_exit" ftrace_events: "raw_syscalls/sys_enter"
          syscall_events: "sys_gettid" }} }} }}"#
    );
    world.write("config", config);
}

/// Returns the file in which a daemon logs its changes of an instance, and which it locks.
fn log_of(instance: &Instance) -> File {
    let files = fs::read_dir("/run/ferretto").unwrap();
    let mut files = files.map(|entry| entry.unwrap().path());
    let names_it =
        |path: &PathBuf| fs::read_to_string(path).is_ok_and(|text| text.contains(instance.name()));
    File::open(files.find(names_it).unwrap()).unwrap()
}

/// Locks a file once its present lock is released, before anybody else can.
fn lock_next(file: File) -> JoinHandle<File> {
    let inode = format!(":{} ", file.metadata().unwrap().ino());
    let locked = std::thread::spawn(move || {
        flock(&file, FlockOperation::LockExclusive).unwrap();
        file
    });
    until("the lock is waited for", || {
        let locks = fs::read_to_string("/proc/locks").unwrap();
        let mut locks = locks.lines();
        let is_waiting = locks.any(|lock| lock.contains("->") && lock.contains(&inode));
        is_waiting.then_some(())
    });
    locked
}

const RECORD: [&str; 5] = ["--txt", "-c", "config", "-o", "out"];

#[test]
fn changes_of_a_killed_daemon_are_undone_by_the_next_one() {
    let Some(instance) = Instance::new("killed") else {
        return;
    };
    let world = World::new();
    config(&world, &instance);
    // The state before the recording.
    fs::write(instance.0.join("buffer_size_kb"), "64").unwrap();
    fs::write(instance.0.join("set_event"), "sched:sched_process_fork").unwrap();
    let before = instance.state();
    let _service = traced(&world);
    let probes = traced_probes(&world);
    let recording = world.start_recording(&["-o", "out"]);
    let during = instance.state();
    assert_ne!(during, before);
    assert!(during[3].contains("sched:sched_process_exit"), "{during:?}");
    // Daemons of other tests would undo the changes, too.
    let log = lock_next(log_of(&instance));
    probes.signal(Signal::KILL);
    drop(probes.finish());
    drop(recording);
    let log = log.join().unwrap();
    assert_eq!(instance.state(), during);
    drop(log);
    let _probes = traced_probes(&world);
    until("the instance is as it was", || {
        (instance.state() == before).then_some(())
    });
    assert_eq!(
        instance.read("events/raw_syscalls/sys_enter/filter"),
        "none"
    );
}

#[test]
fn two_daemons_do_not_share_an_instance() {
    let Some(instance) = Instance::new("shared") else {
        return;
    };
    let (one, other) = (World::new(), World::new());
    for world in [&one, &other] {
        config(world, &instance);
    }
    let _services = (traced(&one), traced(&other));
    let (first, mut second) = (traced_probes(&one), traced_probes(&other));
    let _recording = one.start_recording(&["-o", "out"]);
    let during = instance.state();
    let refused = other.start("perfetto", &RECORD);
    second.wait_for_complaint(&format!("is in use by process {}", first.pid()));
    refused.signal(Signal::INT);
    drop(refused.finish());
    assert_eq!(instance.state(), during);
}

/// Returns the events that a process has created.
fn events_of(pid: i32) -> Option<String> {
    let all = fs::read_to_string(Path::new(TRACEFS).join("uprobe_events")).ok()?;
    let group = format!("ferretto_{pid}/");
    let own = all.lines().filter(|line| line.contains(&group));
    Some(own.collect::<Vec<_>>().join("\n"))
}

#[test]
fn probes_in_programs_are_recorded_and_removed_even_after_a_killed_recording() {
    let world = World::new();
    if fs::metadata(Path::new(TRACEFS).join("uprobe_events")).is_err() {
        println!("skipped: this kernel or user has no probes in programs");
        return;
    }
    let Some(shell) = ["/bin/bash", "/usr/bin/bash"]
        .into_iter()
        .find(|path| Path::new(path).exists())
    else {
        println!("skipped: bash is not installed");
        return;
    };
    let location = format!("{shell}:main");
    let start = ["record", "-o", "t", "-d", "0", "--uprobe", &location];
    let mut killed = world.start("ferretto", &start);
    let pid = killed.pid();
    until("the event is created", || {
        events_of(pid).filter(|made| made.contains("/main "))
    });
    killed.child().kill().unwrap();
    drop(killed.finish());
    assert_ne!(
        events_of(pid).unwrap(),
        "",
        "the killed recording cannot remove it"
    );
    let back = format!("{location}%return");
    let record = [
        "record", "-o", "t", "--uprobe", &location, "--uprobe", &back, "--", shell, "-c", ":",
    ];
    world.run("ferretto", &record).returned(0);
    assert_eq!(events_of(pid).unwrap(), "");
    let text = world.run("ferretto", &["text", "t"]).returned(0);
    assert!(text.text().contains("main"), "{}", text.text());
    let said = world.run(
        "ferretto",
        &["record", "--uprobe", &format!("{shell}:mian")],
    );
    said.returned(1).complained("did you mean main?");
    if fs::metadata(Path::new(TRACEFS).join("kprobe_events")).is_err() {
        world
            .run("ferretto", &["record", "--kprobe", "do_exit"])
            .returned(1)
            .complained("without CONFIG_KPROBE_EVENTS");
    }
}
